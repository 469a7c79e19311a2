# Shared by the scripts of this folder; to be sourced, not run.
# shellcheck shell=bash

PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin # where a user who is not root may not look
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
ROOT=$(cd "$HERE/../.." && pwd)

say() { printf "%s: %s\n" "${0##*/}" "$*"; }
die() { printf "%s: %s\n" "${0##*/}" "$*" >&2; exit 1; }

# cache_folder: where slow builds are kept for all clones on this machine.
cache_folder() { echo "${XDG_CACHE_HOME:-${HOME:-$ROOT/.state}/.cache}/quarry"; }

# needs COMMAND=PACKAGE ...: installs the Debian packages whose command (or file) is missing, or says in one line what is.
needs() {
  local pair probe missing=()
  for pair in "$@"; do
    probe=${pair%%=*}
    command -v "$probe" >/dev/null 2>&1 || [ -e "$probe" ] || missing+=("${pair#*=}")
  done
  [ ${#missing[@]} -gt 0 ] || return 0
  if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null 2>&1; then
    die "missing: ${missing[*]} (install these packages, or run as root where apt-get is available)"
  fi
  say "installing ${missing[*]}"
  # No service may start: the cluster runs a containerd of its own.
  with_ticker "installing packages" env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 sh -c \
    'apt-get update -q && apt-get install -qy --no-install-recommends "$@"' sh "${missing[@]}" ||
    die "apt-get could not install: ${missing[*]}"
}

# with_ticker LABEL COMMAND...: runs the command with its output in a log, and says every ten seconds that it still works.
# The output is shown only when the command fails. TICK, if set, is a function whose output is added to each line.
with_ticker() {
  local label=$1 log started=$SECONDS ticks=0 pid rc=0
  shift
  log=$(mktemp)
  # shellcheck disable=SC2034 # for the function that TICK names
  TICK_LOG=$log
  "$@" >"$log" 2>&1 </dev/null &
  pid=$!
  while kill -0 "$pid" 2>/dev/null; do
    sleep 0.5
    if (((SECONDS - started) / 10 > ticks)); then
      ticks=$(((SECONDS - started) / 10))
      say "$label: $((SECONDS - started)) s${TICK:+, $($TICK)}"
    fi
  done
  wait "$pid" || rc=$?
  if [ $rc = 0 ]; then
    say "$label: done in $((SECONDS - started)) s"
  else
    tail -n 40 "$log" >&2
  fi
  rm -f "$log"
  return $rc
}
