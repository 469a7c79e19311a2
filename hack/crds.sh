#!/usr/bin/env bash
# crds.sh FROM TO: wraps the CustomResourceDefinitions of one folder into chart
# templates, so that crds.enabled and crds.keep decide about them.
set -eu -o pipefail
from=$1 to=$2
mkdir -p "$to"
rm -f "$to"/*.yaml
for file in "$from"/*.yaml; do
  {
    echo '{{- if .Values.crds.enabled }}'
    awk '/^---$/ && NR == 1 {next}
      {print}
      /^  annotations:$/ && !done {
        print "    {{- if .Values.crds.keep }}"
        print "    helm.sh/resource-policy: keep"
        print "    {{- end }}"
        done = 1
      }' "$file"
    echo '{{- end }}'
  } >"$to/$(basename "$file")"
done
