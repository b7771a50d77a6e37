{{- define "noetl.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 52 | trimSuffix "-" }}
{{- else }}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 52 | trimSuffix "-" }}{{ end -}}
{{- end }}

{{- define "noetl.image" -}}
{{- if .Values.image.digest }}{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else }}{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{ end -}}
{{- end }}

{{- define "noetl.labels" -}}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Values.image.tag | default .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- /* The labels that select the servers; the migration's pods have another component. */}}
{{- define "noetl.serverLabels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: server
{{- end }}

{{- define "noetl.healthUrl" -}}
http://{{ include "noetl.name" . }}-health.{{ .Release.Namespace }}.svc:{{ .Values.healthPort }}
{{- end }}

{{- define "noetl.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- define "noetl.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{- /* The environment and the files of the server and of the migration. */}}
{{- define "noetl.environment" -}}
{{- $settings := .Values.settings -}}
{{- if not (or $settings.NOETL_AUTH_TOKENS $settings.NOETL_AUTH_OIDC_ISSUER $settings.NOETL_UNAUTHENTICATED_HOST .Values.internalToken) }}
{{- fail "callers are not authenticated: set settings.NOETL_AUTH_TOKENS or settings.NOETL_AUTH_OIDC_ISSUER, or internalToken if settingsSecret has NOETL_INTERNAL_API_TOKEN" }}
{{- end -}}
envFrom:
  - secretRef:
      name: {{ .Values.settingsSecret }}
env:
  - name: NOETL_HOST
    value: 0.0.0.0
  - name: NOETL_PORT
    value: {{ .Values.port | quote }}
  - name: NOETL_HEALTH_LISTEN
    value: "0.0.0.0:{{ .Values.healthPort }}"
  - name: NOETL_SHUTDOWN_DELAY_SECS
    value: {{ .Values.shutdown.delaySeconds | quote }}
  - name: NOETL_OPERATION_DEADLINE_SECS
    value: {{ .Values.shutdown.operationDeadlineSeconds | quote }}
  {{- range $name, $value := .Values.settings }}
  - name: {{ $name }}
    value: {{ $value | quote }}
  {{- end }}
{{- if .Values.filesSecret }}
volumeMounts:
  - name: files
    mountPath: /etc/noetl
    readOnly: true
{{- end }}
{{- end }}

{{- define "noetl.volumes" -}}
{{- if .Values.filesSecret }}
volumes:
  - name: files
    secret:
      secretName: {{ .Values.filesSecret }}
      defaultMode: 0440
{{- end }}
{{- end }}
