/** The frame of all views: header, navigation, the view, and the announcement of a changed view. */

import { AppShell, Burger, Group, Text, VisuallyHidden } from "@mantine/core";
import { useDisclosure, useHotkeys } from "@mantine/hooks";
import { Outlet, useLocation } from "@tanstack/react-router";
import { Fragment, lazy, Suspense, useEffect, useReducer, useRef, useSyncExternalStore, type MouseEvent } from "react";

import { signInState, subscribeSignIn } from "../api/token";
import { ConnectionState } from "./connection_state";
import { Navigation } from "./navigation_links";
import { PaletteButton } from "./palette_button";
import { part } from "./parts";
import { ReloadNotice } from "./reload_offer";
import logo from "./noetl.svg";
import { keepKeys } from "./typed_ahead";
import { UserMenu } from "./user_menu";
import classes from "./shell.module.css";

const loadPalette = part(() => import("./command_palette"));
const loadViewWatcher = part(() => import("../views/executions/view_watcher"));

const CommandPalette = lazy(() => loadPalette().catch(() => ({ default: ReloadNotice })));
/** The page works without it, for example if the server was updated. */
const ViewWatcher = lazy(() => loadViewWatcher().catch(() => ({ default: () => null })));

export function Shell() {
  const [menuOpened, menu] = useDisclosure(false);
  const [paletteRequests, countRequest] = useReducer((count: number) => count + 1, 0);
  const openPalette = () => {
    keepKeys();
    countRequest();
  };
  useHotkeys([["mod+K", openPalette]], []);
  const { session } = useSyncExternalStore(subscribeSignIn, signInState);
  const main = useFocusOfNewView(menu.close);
  const watching = useWatchMode();
  // The address `#main` is relative to the page's `<base>`, so the link itself would open the overview.
  const skip = (click: MouseEvent) => {
    click.preventDefault();
    main.current?.focus();
  };
  return (
    <AppShell
      header={{ height: 48 }}
      navbar={{ width: 208, breakpoint: "sm", collapsed: { mobile: !menuOpened } }}
      padding={{ base: "sm", sm: "lg" }}
      disabled={watching}
      classNames={{ header: classes.surface!, navbar: classes.surface! }}
    >
      <a href="#main" className={classes.skip} onClick={skip}>
        Go to the content
      </a>
      <AppShell.Header>
        <Group h="100%" px="sm" gap="sm" wrap="nowrap" justify="space-between">
          <Group gap="xs" wrap="nowrap">
            <Burger
              opened={menuOpened}
              onClick={menu.toggle}
              hiddenFrom="sm"
              size="sm"
              aria-label={menuOpened ? "Close the navigation" : "Open the navigation"}
            />
            <img src={logo} alt="" width="24" height="24" />
            <Text fw={600} className={classes.brand} visibleFrom="xs">
              NoETL control plane
            </Text>
          </Group>
          <Group gap="xs" wrap="nowrap">
            <ConnectionState />
            <PaletteButton onClick={openPalette} />
            <UserMenu />
          </Group>
        </Group>
      </AppShell.Header>
      <AppShell.Navbar p="xs" aria-label="Views">
        <Navigation />
      </AppShell.Navbar>
      <AppShell.Main id="main" ref={main} tabIndex={-1} className={classes.main}>
        <Fragment key={session}>
          <Outlet />
        </Fragment>
      </AppShell.Main>
      <Announcement />
      <Suspense>
        <ViewWatcher />
      </Suspense>
      {paletteRequests > 0 && (
        <Suspense>
          <CommandPalette requests={paletteRequests} />
        </Suspense>
      )}
    </AppShell>
  );
}

/** Returns whether the Overview is shown in its watch mode: without header and navigation, in larger type (`theme.css`). */
function useWatchMode(): boolean {
  const { pathname, searchStr } = useLocation();
  const watching = pathname === "/" && new URLSearchParams(searchStr).get("watch") === "1";
  useEffect(() => {
    document.documentElement.toggleAttribute("data-watch-mode", watching);
  }, [watching]);
  return watching;
}

/** Moves the focus to a view when the user opens it, and closes the navigation, which covers a narrow screen. */
function useFocusOfNewView(closeMenu: () => void) {
  const { pathname } = useLocation();
  const main = useRef<HTMLElement>(null);
  const shown = useRef(pathname);
  useEffect(() => {
    if (shown.current !== pathname) {
      shown.current = pathname;
      closeMenu();
      main.current?.focus({ preventScroll: true });
    }
  }, [pathname, closeMenu]);
  return main;
}

function Announcement() {
  const { pathname } = useLocation();
  const region = useRef<HTMLDivElement>(null);
  useEffect(() => {
    // The view sets the title of the tab when it is drawn.
    const timer = window.setTimeout(() => region.current && (region.current.textContent = document.title), 300);
    return () => window.clearTimeout(timer);
  }, [pathname]);
  return (
    <VisuallyHidden>
      <div ref={region} aria-live="polite" />
    </VisuallyHidden>
  );
}
