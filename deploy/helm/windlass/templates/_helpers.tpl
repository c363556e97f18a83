{{- define "windlass.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "windlass.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 52 | trimSuffix "-" }}
{{- else if contains .Chart.Name .Release.Name }}
{{- .Release.Name | trunc 52 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 52 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "windlass.selector" -}}
app.kubernetes.io/name: {{ include "windlass.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "windlass.labels" -}}
{{ include "windlass.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | quote }}
{{- end }}

{{- define "windlass.image" -}}
{{ .Values.image.repository }}:{{ default .Chart.AppVersion .Values.image.tag }}
{{- end }}

{{- define "windlass.serviceAccount" -}}
{{- if .Values.serviceAccount.create }}{{ default (include "windlass.fullname" .) .Values.serviceAccount.name }}{{ else }}{{ default "default" .Values.serviceAccount.name }}{{ end }}
{{- end }}

{{/* The Secret with the address that nodes use. */}}
{{- define "windlass.storeSecret" -}}
{{- if .Values.store.existingSecret }}{{ .Values.store.existingSecret }}{{ else }}{{ include "windlass.fullname" . }}-store{{ end }}
{{- end }}

{{/* The Secret with the address of the owner: apart, because nodes have no use for it. */}}
{{- define "windlass.ownerSecret" -}}
{{- if .Values.store.existingSecret }}{{ .Values.store.existingSecret }}{{ else }}{{ include "windlass.fullname" . }}-owner{{ end }}
{{- end }}

{{/* Refuses values that could not work, before anything is installed. */}}
{{- define "windlass.check" -}}
{{- if not .Values.store.existingSecret }}
{{- $_ := required "store.existingSecret or store.url: the chart needs a PostgreSQL database" .Values.store.url }}
{{- if .Values.migrate.enabled }}
{{- $_ := required "store.ownerUrl: migrations run as the role that owns the tables (or migrate.enabled=false)" .Values.store.ownerUrl }}
{{- end }}
{{- end }}
{{- if and .Values.keda.enabled (not .Values.keda.existingSecret) }}
{{- fail "keda.existingSecret: the scaler needs the connection of a role of its own" }}
{{- end }}
{{- if and .Values.networkPolicy.enabled (not .Values.networkPolicy.storeEgress) }}
{{- fail "networkPolicy.storeEgress: say where the database is, or nodes cannot reach it" }}
{{- end }}
{{- end }}
