{{/* The name of all objects: that of the release, with the chart's unless it is in it. */}}
{{- define "nearhead.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- $full := ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) -}}
{{/* A label has 63 characters at most, and -metrics and -0123456789 come after the name. */}}
{{- default $full .Values.fullnameOverride | trunc 52 | trimSuffix "-" -}}
{{- end -}}

{{- define "nearhead.selector" -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "nearhead.labels" -}}
{{ include "nearhead.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "nearhead.image" -}}
{{- $tag := default .Chart.AppVersion .Values.image.tag -}}
{{ .Values.image.repository }}:{{ $tag }}{{ with .Values.image.digest }}@{{ . }}{{ end }}
{{- end -}}

{{/* The hosts by which pods reach the admin listener through its service, and those that are given. */}}
{{- define "nearhead.allowedHosts" -}}
{{- $service := printf "%s-admin" (include "nearhead.fullname" .) -}}
{{- $local := printf "%s.%s" $service .Release.Namespace -}}
{{- $hosts := list $service $local (printf "%s.svc" $local) (printf "%s.svc.cluster.local" $local) -}}
{{- concat $hosts (default list (index .Values.options "allowed-host")) | join "," -}}
{{- end -}}

{{/* One option as an item of `env`. Helm reads numbers as floats; $( would begin a variable. */}}
{{- define "nearhead.option" -}}
{{- $value := .value -}}
{{- if kindIs "slice" $value }}{{ $value = join "," $value }}{{ end -}}
{{- if kindIs "float64" $value }}{{ $value = printf "%.0f" $value }}{{ end -}}
- name: NEARHEAD_{{ .name | upper | replace "-" "_" }}
  value: {{ $value | toString | replace "$(" "$$(" | quote }}
{{- end -}}

{{/* What the environment sets: the chart's own options, then those of `options`. */}}
{{- define "nearhead.env" -}}
{{- $options := omit .Values.options "allowed-host" -}}
{{- $admin := dict "port-forward" "127.0.0.1" "service" .Values.listenAddress -}}
{{- $own := dict
  "listen" (printf "%s:8545" .Values.listenAddress)
  "metrics-listen" (printf "%s:9090" .Values.listenAddress)
  "admin-listen" (ternary "off" (printf "%s:8590" (get $admin .Values.admin.access)) (eq .Values.admin.access "off"))
  "data-dir" (ternary "/var/lib/nearhead" "none" .Values.persistence.enabled)
  "shutdown-delay" (printf "%vs" .Values.shutdown.delaySeconds)
  "shutdown-grace" (printf "%vs" .Values.shutdown.graceSeconds) -}}
{{- if eq .Values.admin.access "service" }}
{{- $_ := set $own "allowed-host" (include "nearhead.allowedHosts" .) }}
{{- else if index .Values.options "allowed-host" }}
{{- $_ := set $own "allowed-host" (index .Values.options "allowed-host") }}
{{- end }}
{{- range $name, $value := merge $own $options }}
{{ include "nearhead.option" (dict "name" $name "value" $value) }}
{{- end }}
{{- if .Values.configSecret }}
- name: NEARHEAD_CONFIG
  value: /etc/nearhead/nearhead.toml
{{- end }}
{{- range $name, $entry := ternary (dict "FLEET" "url" "FLEET_KEY" "key") dict (ne .Values.fleet.existingSecret "") }}
- name: NEARHEAD_{{ $name }}
  valueFrom:
    secretKeyRef: {name: {{ $.Values.fleet.existingSecret | quote }}, key: {{ $entry }}}
{{- end }}
{{- /* As docs/fleet.md has it: a replica on a busy machine may be further behind than the default. */}}
{{- if and .Values.fleet.existingSecret (not (hasKey $options "min-block-wait")) }}
{{ include "nearhead.option" (dict "name" "min-block-wait" "value" "3s") }}
{{- end }}
{{- /* One per core of the machine would be too many: the pod has some of them. */}}
{{- if ((.Values.resources).requests).cpu }}
{{- range $name := list "workers" "pool-threads" }}
{{- if not (hasKey $options $name) }}
- name: NEARHEAD_{{ $name | upper | replace "-" "_" }}
  valueFrom:
    resourceFieldRef: {resource: requests.cpu}
{{- end }}
{{- end }}
{{- end }}
{{- with .Values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end -}}
