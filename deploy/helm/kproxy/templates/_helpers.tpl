{{- define "kproxy.name" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride -}}
{{- else if contains "kproxy" .Release.Name -}}
{{- .Release.Name | trunc 55 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-kproxy" (.Release.Name | trunc 48 | trimSuffix "-") -}}
{{- end -}}
{{- end -}}

{{- define "kproxy.labels" -}}
app.kubernetes.io/name: {{ include "kproxy.name" . }}
{{- end -}}

{{- define "kproxy.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{- printf "%s@%s" .repository .digest -}}
{{- else -}}
{{- printf "%s:%s" .repository (.tag | default $.Chart.AppVersion) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "kproxy.lastNode" -}}
{{- sub (add .Values.ports.firstNode .Values.ports.nodes) 1 -}}
{{- end -}}

{{- define "kproxy.probe" -}}
port: admin
{{- if hasKey .Values.config "admin-tls-cert" }}
scheme: HTTPS
{{- end }}
{{- end -}}

{{/* What values.schema.json cannot say, or would say less well. */}}
{{- define "kproxy.check" -}}
{{- if not (or (hasKey .Values.config "bootstrap-servers") (hasKey .Values.config "upstreams") (hasKey .Values.config "client-config")) -}}
{{- fail "which brokers? --set-string config.bootstrap-servers=HOST:PORT (a comma is written \\,), or config in a file of values" -}}
{{- end -}}
{{- range $name, $instead := dict "listen" "ports.bootstrap" "node-ports" "ports.firstNode and ports.nodes" "advertise" "advertise" "admin" "ports.admin" -}}
{{- if hasKey $.Values.config $name -}}
{{- fail (printf "config.%s: the chart writes it; set %s" $name $instead) -}}
{{- end -}}
{{- end -}}
{{- if hasKey .Values.config "clusters" -}}
{{- fail "config.clusters: install the chart once for each cluster, with the options of the cluster in config" -}}
{{- end -}}
{{- $last := include "kproxy.lastNode" . | int -}}
{{- if gt $last 65535 -}}
{{- fail (printf "ports: the last node would have port %d; lower ports.firstNode or ports.nodes" $last) -}}
{{- end -}}
{{- range $name := list "bootstrap" "admin" -}}
{{- $port := get $.Values.ports $name | int -}}
{{- if and (ge $port (int $.Values.ports.firstNode)) (le $port $last) -}}
{{- fail (printf "ports.%s: %d is one of the nodes' (%d-%d)" $name $port (int $.Values.ports.firstNode) $last) -}}
{{- end -}}
{{- end -}}
{{- if eq (int .Values.ports.bootstrap) (int .Values.ports.admin) -}}
{{- fail "ports.admin: it is ports.bootstrap already" -}}
{{- end -}}
{{- $needs := addf 6 (float64 (get .Values.config "drain-timeout" | default 0)) -}}
{{- if lt (float64 .Values.terminationGracePeriodSeconds) $needs -}}
{{- fail (printf "terminationGracePeriodSeconds: %v is too short for config.drain-timeout: at least %v, else Kubernetes ends kproxy before it has drained" .Values.terminationGracePeriodSeconds $needs) -}}
{{- end -}}
{{- if and .Values.serviceMonitor.enabled .Values.networkPolicy.enabled (not .Values.networkPolicy.metrics) -}}
{{- fail "networkPolicy.metrics: no pod may read metrics; name the pods or the namespace of Prometheus, or switch serviceMonitor off" -}}
{{- end -}}
{{- end -}}
