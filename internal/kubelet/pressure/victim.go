package pressure

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// criticalPriority is the priority from which a static pod is never evicted.
const criticalPriority = 2_000_000_000

// Use is a pod's usage and request of the short resource.
type Use struct {
	Pod        *corev1.Pod
	Static     bool
	Used       int64
	Requested  int64
	Containers map[string]int64 // usage by container
}

func (u *Use) critical() bool { return priority(u.Pod) >= criticalPriority }

func priority(pod *corev1.Pod) int32 {
	if pod.Spec.Priority == nil {
		return 0
	}
	return *pod.Spec.Priority
}

// Victim returns the pod to evict, or nil. Pods above their request come first, then lower priorities, then those
// farthest above their request.
func Victim(all []Use) *Use {
	may := slices.DeleteFunc(slices.Clone(all), func(u Use) bool { return u.critical() && u.Static })
	if len(may) == 0 {
		return nil
	}
	slices.SortFunc(may, func(a, b Use) int {
		return cmp.Or(
			boolean(b.Used > b.Requested)-boolean(a.Used > a.Requested),
			cmp.Compare(priority(a.Pod), priority(b.Pod)),
			cmp.Compare(b.Used-b.Requested, a.Used-a.Requested),
		)
	})
	return &may[0]
}

func boolean(b bool) int {
	if b {
		return 1
	}
	return 0
}

// Message returns the eviction message, in the kubelet's words.
func (u *Use) Message(s Shortage) string {
	var b strings.Builder
	fmt.Fprintf(&b, "The node was low on resource: %s. Threshold quantity: %s, available: %s. ", s.Signal.Resource(), amount(s, s.Least), amount(s, s.Available))
	for i := range u.Pod.Spec.Containers {
		c := &u.Pod.Spec.Containers[i]
		used, ok := u.Containers[c.Name]
		if !ok {
			continue
		}
		request := c.Resources.Requests[corev1.ResourceName(s.Signal.Resource())]
		if used > request.Value() {
			fmt.Fprintf(&b, "Container %s was using %s, request is %s, has larger consumption of %s. ", c.Name, amount(s, uint64(used)), request.String(), s.Signal.Resource())
		}
	}
	return b.String()
}

func amount(s Shortage, n uint64) string {
	format := resource.BinarySI
	if r := s.Signal.Resource(); r == "pids" || r == "inodes" {
		format = resource.DecimalSI
	}
	q := resource.NewQuantity(int64(n), format)
	if format == resource.BinarySI && n > 1<<20 {
		q = resource.NewQuantity(int64(n>>10<<10), format) // rounded down to KiB
	}
	return q.String()
}
