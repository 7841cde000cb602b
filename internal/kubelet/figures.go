package kubelet

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/internal/kubelet/container"
	"github.com/millrace/millrace/internal/kubelet/stats"
)

// Routes returns the handlers for statistics and metrics.
func (s served) Routes() map[string]http.HandlerFunc {
	figures := s.metrics()
	return map[string]http.HandlerFunc{
		"GET /stats/summary":    s.summarize(func(w http.ResponseWriter, all *stats.Summary) error { return writeJSON(w, all) }),
		"GET /metrics/resource": s.summarize(func(w http.ResponseWriter, all *stats.Summary) error { return all.WriteResources(w) }),
		"GET /metrics/cadvisor": s.summarize(func(w http.ResponseWriter, all *stats.Summary) error { return all.WriteAdvisor(w) }),
		"GET /metrics":          figures.ServeHTTP,
		"GET /configz":          func(w http.ResponseWriter, _ *http.Request) { _ = writeJSON(w, s.configuration()) },
		"GET /runningpods/":     s.runningPods,
		"GET /logs/":            machineLogs("/var/log"),

		"DELETE /localVolumes/{name}": s.removeVolume,
	}
}

func writeJSON(w http.ResponseWriter, v any) error {
	w.Header().Set("Content-Type", "application/json")
	return json.NewEncoder(w).Encode(v)
}

func (s served) summarize(write func(http.ResponseWriter, *stats.Summary) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		all, err := s.summary(r.Context())
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", stats.TextType)
		_ = write(w, all) // an error means that the client has disconnected
	}
}

// summary measures the node and its pods.
func (k *Kubelet) summary(ctx context.Context) (*stats.Summary, error) {
	pods, err := k.podSummary(ctx, true)
	if err != nil {
		return nil, err
	}
	for i := range pods {
		pods[i].Volumes = k.volumeFigures(ctx, pods[i].Ref)
	}
	return &stats.Summary{Node: k.nodeFigures(ctx), Pods: pods}, nil
}

// podSummary measures the running pods. Their log directories are walked only if withLogs is set, because that takes
// long.
func (k *Kubelet) podSummary(ctx context.Context, withLogs bool) ([]stats.Pod, error) {
	usages, err := k.runtime.Usages(ctx)
	if err != nil {
		return nil, err
	}
	pods, err := k.runtime.Pods(ctx)
	if err != nil {
		return nil, err
	}
	k.rates.Keep(func(id string) bool { _, ok := usages[id]; return ok || id == "" })
	all := []stats.Pod{}
	for i := range pods {
		if pods[i].Runs() {
			all = append(all, k.podFigures(&pods[i], usages, withLogs))
		}
	}
	return all, nil
}

func (k *Kubelet) nodeFigures(ctx context.Context) stats.Node {
	n := stats.Node{
		Name: k.options.Name, StartTime: metav1.Time{Time: k.began}, Memory: stats.MachineMemory(), FS: stats.Disk(k.options.Root), Processes: stats.Tasks(),
	}
	if total, at, ok := stats.CPUTime(); ok {
		n.CPU = k.rates.CPU("", at, total)
	}
	if mount, bytes, err := k.runtime.Usage(ctx); err == nil {
		if fs := stats.Disk(mount); fs != nil {
			fs.Used = &bytes
			n.Runtime = &stats.Runtime{ImageFS: fs}
		}
	}
	return n
}

func (k *Kubelet) podFigures(pod *container.Pod, usages map[string]container.Usage, withLogs bool) stats.Pod {
	p := stats.Pod{Ref: stats.Reference{Name: pod.Name, Namespace: pod.Namespace, UID: string(pod.UID)}, Containers: []stats.Container{}}
	if box := pod.Sandbox(); box != nil {
		p.StartTime = metav1.Time{Time: box.CreatedAt}
	}
	for i := range pod.Containers {
		run := &pod.Containers[i]
		u, ok := usages[run.ID]
		if !ok || run.State != container.Running {
			continue
		}
		c := stats.Container{Name: run.Name, StartTime: metav1.Time{Time: run.CreatedAt}}
		at := metav1.Time{Time: u.At}
		if u.CPU != nil {
			c.CPU = k.rates.CPU(u.ID, u.At, *u.CPU)
		}
		if u.WorkingSet != nil {
			c.Memory = &stats.Memory{Time: at, WorkingSet: *u.WorkingSet, Usage: u.Memory, RSS: u.RSS}
		}
		if u.Disk != nil {
			c.RootFS = &stats.FS{Time: at, Used: u.Disk, InodesUsed: u.Inodes}
		}
		if withLogs && run.LogPath != "" {
			c.Logs = stats.Directory(filepath.Dir(run.LogPath))
		}
		p.Containers = append(p.Containers, c)
	}
	p.Sum()
	return p
}

// configuration returns the kubelet's settings as a KubeletConfiguration, for /configz.
func (k *Kubelet) configuration() any {
	o, room := &k.options, k.allocatable()
	return map[string]any{"kubeletconfig": map[string]any{
		"kind": "KubeletConfiguration", "apiVersion": "kubelet.config.k8s.io/v1beta1",
		"staticPodPath": o.Manifests, "staticPodURL": o.ManifestURL, "clusterDNS": o.ClusterDNS, "clusterDomain": o.ClusterDomain,
		"containerRuntimeEndpoint": o.Socket, "maxPods": room.Pods().Value(), "podLogsDir": o.Logs,
		"containerLogMaxSize": fmt.Sprint(o.Rotation.Size), "containerLogMaxFiles": o.Rotation.Files,
		"imageGCHighThresholdPercent": o.ImageHighUse, "imageGCLowThresholdPercent": o.ImageLowUse,
		"evictionHard": o.Eviction.Hard.Words(), "evictionSoft": o.Eviction.Soft.Words(), "evictionSoftGracePeriod": o.Eviction.GraceWords(),
		"evictionMinimumReclaim": o.Eviction.Reclaim.Words(), "evictionMaxPodGracePeriod": int(o.EvictionGrace.Seconds()),
		"evictionPressureTransitionPeriod": o.PressureHolds.String(), "systemReserved": o.Reserved,
	}}
}

// runningPods lists the pods that the runtime runs, wanted or not.
func (s served) runningPods(w http.ResponseWriter, r *http.Request) {
	pods, err := s.runtime.Pods(r.Context())
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	list := corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}, Items: []corev1.Pod{}}
	for i := range pods {
		p := &pods[i]
		if !p.Runs() {
			continue
		}
		pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name, UID: p.UID}}
		for _, run := range p.Containers {
			if run.State == container.Running {
				pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: run.Name, Image: run.Image})
			}
		}
		slices.Reverse(pod.Spec.Containers) // in the order of their start
		list.Items = append(list.Items, pod)
	}
	_ = writeJSON(w, &list)
}

// metrics serves the kubelet's own metrics.
func (s served) metrics() http.Handler {
	r := prometheus.NewRegistry()
	count := func(name, help string, value func() float64) {
		r.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value))
	}
	running := func(of func(*container.Pod) int) func() float64 {
		return func() float64 {
			pods, err := s.runtime.Pods(context.Background())
			if err != nil {
				return 0
			}
			sum := 0
			for i := range pods {
				sum += of(&pods[i])
			}
			return float64(sum)
		}
	}
	count("kubelet_running_pods", "Number of pods that have a running pod sandbox", running(func(p *container.Pod) int {
		if box := p.Sandbox(); box != nil && box.Ready {
			return 1
		}
		return 0
	}))
	count("kubelet_running_containers", "Number of containers currently running", running(func(p *container.Pod) int {
		n := 0
		for _, c := range p.Containers {
			if c.State == container.Running {
				n++
			}
		}
		return n
	}))
	count("kubelet_desired_pods", "The number of pods the kubelet is being instructed to run.", func() float64 { return float64(len(s.config.Pods())) })
	r.MustRegister(
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "kubelet_node_name", Help: "The node's name. The count is always 1.", ConstLabels: prometheus.Labels{"node": s.options.Name},
		}, func() float64 { return 1 }),
		s.terminated, volumeMetrics{s.Kubelet}, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	if s.plugins != nil {
		r.MustRegister(s.plugins)
	}
	return promhttp.HandlerFor(r, promhttp.HandlerOpts{})
}

func newTerminated() *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "kubelet_terminated_containers_total", Help: "Cumulative number of container terminations.",
	}, []string{"container_type", "exit_code", "reason"})
}

func (k *Kubelet) countTerminated(kind string, end *corev1.ContainerStateTerminated) {
	k.terminated.WithLabelValues(kind, strconv.Itoa(int(end.ExitCode)), end.Reason).Inc()
}
