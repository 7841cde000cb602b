package stats

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// TextType is the media type of the Prometheus text format.
const TextType = "text/plain; version=0.0.4; charset=utf-8"

// metric is a metric in that format, with its samples for a container, a pod and a node.
type metric struct {
	name, kind, help string
	node             func(*Node) *point
	pod              func(*Pod) *point
	container        func(*Container) *point
}

// point is a value, and when it was measured: clients compute rates from these. The zero time means that it does not
// matter.
type point struct {
	value float64
	at    time.Time
}

func cpuOf(c *CPU) *point {
	if c == nil {
		return nil
	}
	return &point{float64(c.Total) / 1e9, c.Time.Time}
}

func memoryOf(m *Memory) *point {
	if m == nil {
		return nil
	}
	return &point{float64(m.WorkingSet), m.Time.Time}
}

func rssOf(m *Memory) *point {
	if m == nil || m.RSS == nil {
		return nil
	}
	return &point{float64(*m.RSS), m.Time.Time}
}

func diskOf(f *FS) *point {
	if f == nil || f.Used == nil {
		return nil
	}
	return &point{float64(*f.Used), f.Time.Time}
}

func startOf(c *Container) *point {
	if c.StartTime.IsZero() {
		return nil
	}
	return &point{value: float64(c.StartTime.UnixNano()) / 1e9}
}

// resources are the metrics that metrics-server reads.
var resources = []metric{
	{name: "container_cpu_usage_seconds_total", kind: "counter", help: "Cumulative cpu time consumed by the container in core-seconds",
		container: func(c *Container) *point { return cpuOf(c.CPU) }},
	{name: "container_memory_working_set_bytes", kind: "gauge", help: "Current working set of the container in bytes",
		container: func(c *Container) *point { return memoryOf(c.Memory) }},
	{name: "container_start_time_seconds", kind: "gauge", help: "Start time of the container since unix epoch in seconds",
		container: startOf},
	{name: "node_cpu_usage_seconds_total", kind: "counter", help: "Cumulative cpu time consumed by the node in core-seconds",
		node: func(n *Node) *point { return cpuOf(n.CPU) }},
	{name: "node_memory_working_set_bytes", kind: "gauge", help: "Current working set of the node in bytes",
		node: func(n *Node) *point { return memoryOf(n.Memory) }},
	{name: "pod_cpu_usage_seconds_total", kind: "counter", help: "Cumulative cpu time consumed by the pod in core-seconds",
		pod: func(p *Pod) *point { return cpuOf(p.CPU) }},
	{name: "pod_memory_working_set_bytes", kind: "gauge", help: "Current working set of the pod in bytes",
		pod: func(p *Pod) *point { return memoryOf(p.Memory) }},
	{name: "resource_scrape_error", kind: "gauge", help: "1 if there was an error while getting container metrics, 0 otherwise",
		node: func(*Node) *point { return &point{} }},
}

// advisor are the metrics of cAdvisor that dashboards use.
var advisor = append(resources[:2:2],
	metric{name: "container_memory_rss", kind: "gauge", help: "Size of RSS in bytes.",
		container: func(c *Container) *point { return rssOf(c.Memory) }},
	metric{name: "container_fs_usage_bytes", kind: "gauge", help: "Number of bytes that are consumed by the container on this filesystem.",
		container: func(c *Container) *point { return diskOf(c.RootFS) }},
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
			m.node(&s.Node).write(&b, m.name, "")
		}
		for i := range s.Pods {
			p := &s.Pods[i]
			if m.pod != nil {
				m.pod(p).write(&b, m.name, fmt.Sprintf("{namespace=%q,pod=%q}", p.Ref.Namespace, p.Ref.Name))
			}
			for k := range p.Containers {
				if m.container != nil {
					c := &p.Containers[k]
					m.container(c).write(&b, m.name, fmt.Sprintf("{container=%q,namespace=%q,pod=%q}", c.Name, p.Ref.Namespace, p.Ref.Name))
				}
			}
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// write writes the line of a point, if there is one.
func (p *point) write(b *strings.Builder, name, labels string) {
	if p == nil {
		return
	}
	fmt.Fprintf(b, "%s%s %v", name, labels, p.value)
	if !p.at.IsZero() {
		fmt.Fprintf(b, " %d", p.at.UnixMilli())
	}
	b.WriteByte('\n')
}
