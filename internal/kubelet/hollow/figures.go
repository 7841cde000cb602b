package hollow

import (
	"cmp"
	"encoding/json"
	"io"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace/millrace/internal/kubelet/container"
	"github.com/millrace/millrace/internal/kubelet/stats"
)

const (
	// The usage of a container without annotations, and the usage of a node without its containers.
	idleCPU, idleMemory = int64(1), int64(8 << 20)
	nodeCPU, nodeMemory = int64(50), int64(256 << 20)
)

// asked returns the node that a request is for. All nodes share one server, so the query names the node; without a name
// it is the first node. So whoever may read one of these nodes may read all.
func (n *Nodes) asked(r *http.Request) string {
	return cmp.Or(r.URL.Query().Get("node"), n.options.NamePrefix+"0")
}

// summarize serves the usage of the pods of a node.
func (s served) summarize(contentType string, write func(*stats.Summary, io.Writer) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		name := s.asked(r)
		if !s.has(name) {
			http.Error(w, "there is no node "+name, http.StatusNotFound)
			return
		}
		w.Header().Set("Content-Type", contentType)
		_ = write(s.figures(r, name), w) // an error means that the client has disconnected
	}
}

func writeJSON(all *stats.Summary, w io.Writer) error { return json.NewEncoder(w).Encode(all) }

func (s served) figures(r *http.Request, node string) *stats.Summary {
	now := metav1.Now()
	total := s.meters.of(node)
	defer total.read()
	cpu, memory := nodeCPU, nodeMemory
	all := &stats.Summary{Pods: []stats.Pod{}}
	shares := map[types.UID]int64{}
	for pod := range s.pods.List() {
		if pod.Spec.NodeName != node || pod.Status.Phase != corev1.PodRunning {
			continue
		}
		state, err := s.runtime.Pod(r.Context(), pod.UID)
		if err != nil {
			continue
		}
		p := stats.Pod{Ref: stats.Reference{Name: pod.Name, Namespace: pod.Namespace, UID: string(pod.UID)}, Containers: []stats.Container{}}
		for i := range pod.Spec.Containers {
			c := &pod.Spec.Containers[i]
			run := state.Container(c.Name)
			if run == nil || run.State != container.Running {
				continue
			}
			usedCPU, usedMemory := s.use(pod, c, shares)
			cpu, memory = cpu+usedCPU, memory+usedMemory
			p.Containers = append(p.Containers, stats.Container{
				Name: c.Name, StartTime: metav1.Time{Time: run.StartedAt},
				CPU: total.add(run.ID, run.StartedAt, now, usedCPU), Memory: &stats.Memory{Time: now, WorkingSet: uint64(usedMemory)},
			})
		}
		p.Sum()
		all.Pods = append(all.Pods, p)
	}
	all.Node = stats.Node{Name: node, StartTime: metav1.Time{Time: s.began}, CPU: total.add("", s.began, now, cpu), Memory: &stats.Memory{Time: now, WorkingSet: uint64(memory)}}
	return all
}

// use returns the usage of a container: CPU in millicores, memory in bytes.
func (s served) use(pod *corev1.Pod, c *corev1.Container, shares map[types.UID]int64) (cpu, memory int64) {
	cpu, memory = idleCPU, idleMemory
	if len(pod.Annotations) == 0 {
		return cpu, memory
	}
	r := reader{pod.Annotations, c.Name, false}
	if q, ok := r.quantity("cpu"); ok {
		cpu = q.MilliValue()
	}
	if q, ok := r.quantity("memory"); ok {
		memory = q.Value()
	}
	if q, ok := r.quantity("shared-cpu"); ok {
		cpu = q.MilliValue() / s.siblings(pod, shares)
	}
	return cpu, memory
}

// siblings returns how many running pods share a load: those of the same controller.
func (s served) siblings(pod *corev1.Pod, known map[types.UID]int64) int64 {
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil {
		return 1
	}
	if known[owner.UID] == 0 {
		for other := range s.pods.ListNamespace(pod.Namespace) {
			if o := metav1.GetControllerOfNoCopy(other); o != nil && o.UID == owner.UID && other.Status.Phase == corev1.PodRunning && other.DeletionTimestamp == nil {
				known[owner.UID]++
			}
		}
	}
	return max(1, known[owner.UID])
}

func (r reader) quantity(name string) (resource.Quantity, bool) {
	text, ok := r.text(name)
	if !ok {
		return resource.Quantity{}, false
	}
	q, err := resource.ParseQuantity(text)
	return q, err == nil && q.Sign() >= 0
}
