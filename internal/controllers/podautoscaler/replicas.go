package podautoscaler

import (
	"context"
	"errors"
	"fmt"
	"math"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/millrace/millrace/internal/demand"
	"github.com/millrace/millrace/loop"
)

var (
	errNoPods    = errors.New("no pods returned by selector while calculating replica count")
	errNoFigures = errors.New("did not receive metrics for targeted pods (pods might be unready)")
)

// within reports whether a ratio of usage to target is within the tolerance.
func (e *evaluation) within(ratio float64) bool {
	up, down := e.Tolerance, e.Tolerance
	if b := e.hpa.Spec.Behavior; b != nil {
		if b.ScaleUp != nil && b.ScaleUp.Tolerance != nil {
			up = b.ScaleUp.Tolerance.AsApproximateFloat64()
		}
		if b.ScaleDown != nil && b.ScaleDown.Tolerance != nil {
			down = b.ScaleDown.Tolerance.AsApproximateFloat64()
		}
	}
	return 1-down <= ratio && ratio <= 1+up
}

// pods returns the workload's pods. They are read from the API, because only autoscalers need complete pods.
func (e *evaluation) pods(ctx context.Context, selector labels.Selector) ([]corev1.Pod, error) {
	list, err := e.clients.Kube.CoreV1().Pods(e.key.Namespace).List(ctx, metav1.ListOptions{LabelSelector: selector.String(), ResourceVersion: "0"})
	if err != nil {
		return nil, fmt.Errorf("unable to get pods while calculating replica count: %v", err)
	}
	if len(list.Items) == 0 {
		return nil, errNoPods
	}
	return list.Items, nil
}

// group counts the ready pods, and returns those that are not ready yet and those without a value. Values of pods that
// do not count are removed.
func (e *evaluation) group(pods []corev1.Pod, figures map[string]figure, cpu bool) (ready int, unready, missing []string) {
	for i := range pods {
		pod := &pods[i]
		f, found := figures[pod.Name]
		switch {
		case pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodFailed:
			delete(figures, pod.Name)
		case pod.Status.Phase == corev1.PodPending || found && cpu && e.warmsUp(pod, f):
			delete(figures, pod.Name)
			unready = append(unready, pod.Name)
		case !found:
			missing = append(missing, pod.Name)
		default:
			ready++
		}
	}
	return ready, unready, missing
}

// warmsUp reports whether a pod's CPU usage may still be that of its start.
func (e *evaluation) warmsUp(pod *corev1.Pod, f figure) bool {
	var c *corev1.PodCondition
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == corev1.PodReady {
			c = &pod.Status.Conditions[i]
		}
	}
	began := pod.Status.StartTime
	switch {
	case c == nil || began == nil:
		return true
	case began.Add(e.CPUInitialization).After(e.now):
		return c.Status == corev1.ConditionFalse || f.at.Before(c.LastTransitionTime.Add(f.window))
	}
	return c.Status == corev1.ConditionFalse && began.Add(e.InitialReadiness).After(c.LastTransitionTime.Time)
}

// measure compares values with a target. ratio is usage divided by target; assumed is the value for a pod without one
// when scaling down.
type measure struct {
	ratio   func(figures map[string]figure) (float64, error)
	assumed func(pod string) int64
}

// count computes a number of replicas. Pods without a value or not ready are assumed to use nothing when scaling up,
// and as much as they may when scaling down, so that they cause the smallest change.
func (e *evaluation) count(now int32, pods []corev1.Pod, figures map[string]figure, cpu bool, m measure) (int32, error) {
	ready, unready, missing := e.group(pods, figures, cpu)
	if len(figures) == 0 {
		return 0, errNoFigures
	}
	ratio, err := m.ratio(figures)
	if err != nil {
		return 0, err
	}
	grow := len(unready) > 0 && ratio > 1
	if !grow && len(missing) == 0 {
		if e.within(ratio) {
			return now, nil
		}
		return ceil(ratio * float64(ready)), nil
	}
	for _, pod := range missing {
		switch {
		case ratio < 1:
			figures[pod] = figure{value: m.assumed(pod)}
		case ratio > 1:
			figures[pod] = figure{}
		}
	}
	if grow {
		for _, pod := range unready {
			figures[pod] = figure{}
		}
	}
	again, err := m.ratio(figures)
	if err != nil {
		return 0, err
	}
	if e.within(again) || ratio < 1 && again > 1 || ratio > 1 && again < 1 {
		return now, nil
	}
	wanted := ceil(again * float64(len(figures)))
	if again < 1 && wanted > now || again > 1 && wanted < now {
		return now, nil
	}
	return wanted, nil
}

func ceil(f float64) int32 { return clamp(math.Ceil(f)) }

// clamp rounds towards zero. What 32 bits cannot hold becomes the largest or smallest number that they can.
func clamp(f float64) int32 { return int32(max(math.MinInt32, min(math.MaxInt32, f))) }

// byAverage compares the average per pod with a target. It also returns the average.
func (e *evaluation) byAverage(now int32, pods []corev1.Pod, figures map[string]figure, cpu bool, target int64) (replicas int32, average int64, err error) {
	first := true
	replicas, err = e.count(now, pods, figures, cpu, measure{
		ratio: func(all map[string]figure) (float64, error) {
			use := total(all) / int64(len(all))
			if first {
				average, first = use, false
			}
			return float64(use) / float64(target), nil
		},
		assumed: func(string) int64 { return target },
	})
	return replicas, average, err
}

func total(all map[string]figure) (sum int64) {
	for _, f := range all {
		sum += f.value
	}
	return sum
}

// byUtilization compares the usage in percent of the requests with a target.
func (e *evaluation) byUtilization(now int32, pods []corev1.Pod, figures map[string]figure,
	what corev1.ResourceName, container string, target int32) (replicas, utilization int32, average int64, err error) {
	requests := map[string]int64{}
	first := true
	prepare := func() error {
		for i := range pods {
			if requests[pods[i].Name], err = request(&pods[i], what, container); err != nil {
				return err
			}
		}
		return nil
	}
	replicas, err = e.count(now, pods, figures, what == corev1.ResourceCPU, measure{
		ratio: func(all map[string]figure) (float64, error) {
			if len(requests) == 0 {
				if err := prepare(); err != nil {
					return 0, err
				}
			}
			used, requested, count := int64(0), int64(0), int64(0)
			for pod, f := range all {
				if r, ok := requests[pod]; ok {
					used, requested, count = used+f.value, requested+r, count+1
				}
			}
			if requested == 0 {
				return 0, errors.New("no metrics returned matched known pods")
			}
			percent := clamp(float64(used) * 100 / float64(requested))
			if first {
				utilization, average, first = percent, used/count, false
			}
			return float64(percent) / float64(target), nil
		},
		assumed: func(pod string) int64 { return requests[pod] * int64(max(100, target)) / 100 },
	})
	return replicas, utilization, average, err
}

// request returns the request of a pod, or of one of its containers, in thousandths.
func request(pod *corev1.Pod, what corev1.ResourceName, container string) (int64, error) {
	if r := pod.Spec.Resources; r != nil && container == "" && len(r.Requests) > 0 {
		if q, ok := r.Requests[what]; ok {
			return q.MilliValue(), nil
		}
	}
	var total int64
	found := false
	add := func(c *corev1.Container) error {
		if container != "" && container != c.Name {
			return nil
		}
		q, ok := c.Resources.Requests[what]
		if !ok {
			return fmt.Errorf("missing request for %s in container %s of Pod %s", what, c.Name, pod.Name)
		}
		total, found = total+q.MilliValue(), true
		return nil
	}
	for i := range pod.Spec.Containers {
		if err := add(&pod.Spec.Containers[i]); err != nil {
			return 0, err
		}
	}
	for i := range pod.Spec.InitContainers {
		if c := &pod.Spec.InitContainers[i]; demand.Sidecar(c) {
			if err := add(c); err != nil {
				return 0, err
			}
		}
	}
	if container != "" && !found {
		return 0, fmt.Errorf("container %s not found in Pod %s", container, pod.Name)
	}
	return total, nil
}

// byRatio uses a value that is not measured per pod.
func (e *evaluation) byRatio(ctx context.Context, now int32, ratio float64, selector labels.Selector) (int32, error) {
	if now == 0 {
		return ceil(ratio), nil
	}
	if e.within(ratio) {
		return now, nil
	}
	pods, err := e.pods(ctx, selector)
	if err != nil {
		return 0, fmt.Errorf("unable to calculate ready pods: %s", err)
	}
	ready := 0
	for i := range pods {
		if pods[i].Status.Phase == corev1.PodRunning && loop.PodReady(&pods[i]) {
			ready++
		}
	}
	return ceil(ratio * float64(ready)), nil
}

// byShare uses a value that all replicas share, and returns each one's part.
func (e *evaluation) byShare(replicas int32, usage, target int64) (int32, int64) {
	wanted := replicas
	if !e.within(float64(usage) / (float64(target) * float64(replicas))) {
		wanted = ceil(float64(usage) / float64(target))
	}
	return wanted, int64(math.Ceil(float64(usage) / float64(replicas)))
}
