{{- define "quarry.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 53 | trimSuffix "-" }}
{{- end }}

{{- define "quarry.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 53 | trimSuffix "-" }}
{{- else if contains (include "quarry.name" .) .Release.Name }}
{{- .Release.Name | trunc 53 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name (include "quarry.name" .) | trunc 53 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "quarry.selectorLabels" -}}
app.kubernetes.io/name: {{ include "quarry.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: operator
{{- end }}

{{- define "quarry.labels" -}}
{{ include "quarry.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "quarry.serviceAccountName" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "quarry.fullname" .) .Values.serviceAccount.name }}
{{- else }}
{{- required "serviceAccount.name is empty: name an account, or set serviceAccount.create" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{- define "quarry.image" -}}
{{- if .Values.image.digest }}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest }}
{{- else }}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) }}
{{- end }}
{{- end }}
