package stats

import (
	"fmt"
	"io"
	"strings"
)

// metric is a metric in the Prometheus text format, with its values for a container, a pod and a node.
type metric struct {
	name, kind, help string
	node             func(*Node) (float64, bool)
	pod              func(*Pod) (float64, bool)
	container        func(*Container) (float64, bool)
}

func cpuOf(c *CPU) (float64, bool) {
	if c == nil {
		return 0, false
	}
	return float64(c.Total) / 1e9, true
}

func memoryOf(m *Memory) (float64, bool) {
	if m == nil {
		return 0, false
	}
	return float64(m.WorkingSet), true
}

func rssOf(m *Memory) (float64, bool) {
	if m == nil || m.RSS == nil {
		return 0, false
	}
	return float64(*m.RSS), true
}

func diskOf(f *FS) (float64, bool) {
	if f == nil || f.Used == nil {
		return 0, false
	}
	return float64(*f.Used), true
}

// resources are the metrics that metrics-server reads.
var resources = []metric{
	{name: "container_cpu_usage_seconds_total", kind: "counter", help: "Cumulative cpu time consumed by the container in core-seconds",
		container: func(c *Container) (float64, bool) { return cpuOf(c.CPU) }},
	{name: "container_memory_working_set_bytes", kind: "gauge", help: "Current working set of the container in bytes",
		container: func(c *Container) (float64, bool) { return memoryOf(c.Memory) }},
	{name: "container_start_time_seconds", kind: "gauge", help: "Start time of the container since unix epoch in seconds",
		container: func(c *Container) (float64, bool) {
			return float64(c.StartTime.UnixNano()) / 1e9, !c.StartTime.IsZero()
		}},
	{name: "node_cpu_usage_seconds_total", kind: "counter", help: "Cumulative cpu time consumed by the node in core-seconds",
		node: func(n *Node) (float64, bool) { return cpuOf(n.CPU) }},
	{name: "node_memory_working_set_bytes", kind: "gauge", help: "Current working set of the node in bytes",
		node: func(n *Node) (float64, bool) { return memoryOf(n.Memory) }},
	{name: "pod_cpu_usage_seconds_total", kind: "counter", help: "Cumulative cpu time consumed by the pod in core-seconds",
		pod: func(p *Pod) (float64, bool) { return cpuOf(p.CPU) }},
	{name: "pod_memory_working_set_bytes", kind: "gauge", help: "Current working set of the pod in bytes",
		pod: func(p *Pod) (float64, bool) { return memoryOf(p.Memory) }},
	{name: "resource_scrape_error", kind: "gauge", help: "1 if there was an error while getting container metrics, 0 otherwise",
		node: func(*Node) (float64, bool) { return 0, true }},
}

// advisor are the metrics of cAdvisor that dashboards use.
var advisor = append(resources[:2:2],
	metric{name: "container_memory_rss", kind: "gauge", help: "Size of RSS in bytes.",
		container: func(c *Container) (float64, bool) { return rssOf(c.Memory) }},
	metric{name: "container_fs_usage_bytes", kind: "gauge", help: "Number of bytes that are consumed by the container on this filesystem.",
		container: func(c *Container) (float64, bool) { return diskOf(c.RootFS) }},
	resources[2],
)

// WriteResources writes the metrics of /metrics/resource.
func (s *Summary) WriteResources(w io.Writer) error { return s.write(w, resources) }

// WriteAdvisor writes the metrics of /metrics/cadvisor.
func (s *Summary) WriteAdvisor(w io.Writer) error { return s.write(w, advisor) }

func (s *Summary) write(w io.Writer, metrics []metric) error {
	var b strings.Builder
	for _, m := range metrics {
		fmt.Fprintf(&b, "# HELP %s [STABLE] %s\n# TYPE %s %s\n", m.name, m.help, m.name, m.kind)
		if m.node != nil {
			if v, ok := m.node(&s.Node); ok {
				fmt.Fprintf(&b, "%s %v\n", m.name, v)
			}
		}
		for i := range s.Pods {
			p := &s.Pods[i]
			if m.pod != nil {
				if v, ok := m.pod(p); ok {
					fmt.Fprintf(&b, "%s{namespace=%q,pod=%q} %v\n", m.name, p.Ref.Namespace, p.Ref.Name, v)
				}
			}
			for k := range p.Containers {
				if m.container == nil {
					break
				}
				if v, ok := m.container(&p.Containers[k]); ok {
					fmt.Fprintf(&b, "%s{container=%q,namespace=%q,pod=%q} %v\n", m.name, p.Containers[k].Name, p.Ref.Namespace, p.Ref.Name, v)
				}
			}
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}
