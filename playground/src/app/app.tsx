/** The console: theme, store of replies, routes, and the dialog that asks for a token. */

import { MantineProvider } from "@mantine/core";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { RouterProvider } from "@tanstack/react-router";
import { lazy, Suspense, useState, useSyncExternalStore } from "react";

import { isRetryable } from "../api/errors";
import { sendAgain } from "../api/send_again";
import { signInState, subscribeSignIn } from "../api/token";
import { part } from "./parts";
import { ReloadNotice } from "./reload_offer";
import { router } from "./routes";
import { THEME, VARIABLES } from "./theme";

const loadSignInDialog = part(() => import("./sign_in_dialog"));
const SignInDialog = lazy(() => loadSignInDialog().catch(() => ({ default: ReloadNotice })));
const MAX_RETRIES = 3;
const FRESH_MS = 2_000;

const queries = new QueryClient({
  defaultOptions: {
    queries: {
      // The browser's opinion about the network says nothing about a server in a closed network.
      networkMode: "always",
      staleTime: FRESH_MS,
      retry: (failures, error) => isRetryable(error) && failures < MAX_RETRIES,
    },
    mutations: { networkMode: "always" },
  },
});

// A page that belongs to a token is read again with the next token. After a sign-out, nothing of it stays: the views
// begin again (`shell.tsx`), the live status too (`system_status.ts`).
let { token: usedToken, session } = signInState();
subscribeSignIn(() => {
  const state = signInState();
  if (state.session !== session) {
    void queries.resetQueries();
    queries.getMutationCache().clear();
  } else if (state.token !== usedToken) {
    void sendAgain(queries);
  }
  usedToken = state.token;
  session = state.session;
});

export function App() {
  return (
    <MantineProvider theme={THEME} cssVariablesResolver={VARIABLES} defaultColorScheme="auto">
      <QueryClientProvider client={queries}>
        <RouterProvider router={router} />
        <SignIn />
      </QueryClientProvider>
    </MantineProvider>
  );
}

/** The dialog, which is loaded when it is needed for the first time. Then it stays, so that it can close smoothly. */
function SignIn() {
  const { asking } = useSyncExternalStore(subscribeSignIn, signInState);
  const [needed, setNeeded] = useState(false);
  if (asking !== null && !needed) {
    setNeeded(true);
  }
  return (
    needed && (
      <Suspense>
        <SignInDialog />
      </Suspense>
    )
  );
}
