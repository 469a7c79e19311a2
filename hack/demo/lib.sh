# Shared by the demo and the end-to-end tests: the cluster's tools, and waiting with a sign of life. To be sourced.
# shellcheck shell=bash
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
STATE=$(realpath -m "${STATE:-$ROOT/.state/kube}")
IMAGE=${IMAGE:-quarry:dev}
export STATE
KUBECONFIG=$("$ROOT/hack/kube/cluster" kubeconfig)
export KUBECONFIG
IDP=$STATE/idp

if ! command -v curl >/dev/null; then
  [ "$(id -u)" = 0 ] || { echo "missing curl: install it, or run as root" >&2; exit 1; }
  apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends curl
fi

k() { "$ROOT/bin/kube/kubectl" "$@"; }
s3() { "$ROOT/hack/s3/s3" "$@"; }
say() { printf '\n\033[1m%s\033[0m\n' "$*"; }
note() { printf '   %s\n' "$*"; }

# until_true SECONDS WHAT COMMAND...: repeats the command until it succeeds, with a dot of life every ten seconds.
until_true() {
  local limit=$1 what=$2 started=$SECONDS said=$SECONDS
  shift 2
  until "$@" >/dev/null 2>&1; do
    if ((SECONDS - started > limit)); then
      printf 'gave up after %s s: %s\n' "$limit" "$what" >&2
      return 1
    fi
    if ((SECONDS - said >= 10)); then
      said=$SECONDS
      note "... $what ($((SECONDS - started)) s)"
    fi
    sleep 0.5
  done
}

build_idp() { [ -x "$STATE/bin/idp" ] || (cd "$ROOT" && go build -o "$STATE/bin/idp" ./hack/idp); }

# token TENANT USER [GROUP...]: what the company's single sign-on would hand to this person.
token() {
  local tenant=$1 user=$2 groups=()
  shift 2
  for group in "$@"; do groups+=(--group "$group"); done
  "$STATE/bin/idp" token "$IDP" --tenant "$tenant" --user "$user" "${groups[@]}"
}

# ask PIPELINE-TENANT TOKEN QUESTION [TOPK]: prints the answer of the tenant's Service.
ask() {
  local address
  address=$(k -n rag get service "$1" -o 'jsonpath={.spec.clusterIP}')
  curl -sS --max-time 10 "http://$address/v1/search" -H "Authorization: Bearer $2" -H 'Content-Type: application/json' \
    -d "{\"query\": \"$3\", \"topK\": ${4:-3}}"
}

# install_operator: the chart, as helm would install it.
install_operator() {
  (cd "$ROOT/hack/chart" && go run . "$ROOT/charts/quarry" --namespace quarry-system --set "image.repository=${IMAGE%:*}" --set "image.tag=${IMAGE##*:}") >"$STATE/operator.yaml"
  k create namespace quarry-system --dry-run=client -o yaml | k apply -f - >/dev/null
  k label namespace quarry-system pod-security.kubernetes.io/enforce=restricted --overwrite >/dev/null
  k -n quarry-system apply --server-side --force-conflicts -f "$STATE/operator.yaml" >/dev/null
  k wait --for=condition=Established crd --all --timeout=60s >/dev/null
  k -n quarry-system rollout status deployment --timeout=180s
}

# prepare_namespace: the namespace of the tenants, the S3 keys, and the public keys of the single sign-on.
prepare_namespace() {
  eval "$(s3 env)"
  k create namespace rag --dry-run=client -o yaml | k apply -f - >/dev/null
  k label namespace rag pod-security.kubernetes.io/enforce=restricted --overwrite >/dev/null
  k -n rag create secret generic s3 --from-literal=accessKeyID="$S3_ACCESS_KEY" --from-literal=secretAccessKey="$S3_SECRET_KEY" --dry-run=client -o yaml | k apply -f - >/dev/null
  build_idp
  "$STATE/bin/idp" keys "$IDP"
  k -n rag create configmap sso --from-file=jwks.json="$IDP/jwks.json" --dry-run=client -o yaml | k apply -f - >/dev/null
}

# active TENANT: the Index that answers.
active() { k -n rag get service "${PIPELINE:-handbook}-$1" -o 'jsonpath={.metadata.annotations.quarry\.dev/active-index}' 2>/dev/null; }
