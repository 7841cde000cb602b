package core

import (
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/resource/table"
)

var (
	podSpecDoc   = corev1.PodSpec{}.SwaggerDoc()
	podStatusDoc = corev1.PodStatus{}.SwaggerDoc()
)

var podColumns = []table.Column{
	table.Name(),
	table.Text("Ready", "The aggregate readiness state of this pod for accepting traffic."),
	table.Text("Status", "The aggregate status of the containers in this pod."),
	table.Text("Restarts", "The number of times the containers in this pod have been restarted and when the last container in this pod has restarted."),
	table.Age(),
	table.Wide(table.Text("IP", podStatusDoc["podIP"])),
	table.Wide(table.Text("Node", podSpecDoc["nodeName"])),
	table.Wide(table.Text("Nominated Node", podStatusDoc["nominatedNodeName"])),
	table.Wide(table.Text("Readiness Gates", podSpecDoc["readinessGates"])),
}

func podRow(p *corev1.Pod) resource.Row {
	var s podSummary
	s.look(p)
	return resource.Row{
		Cells: []any{
			p.Name, fmt.Sprintf("%d/%d", s.ready, s.total), s.reason, s.restartText(), table.Since(p.CreationTimestamp),
			orNone(podIP(p)), orNone(p.Spec.NodeName), orNone(p.Status.NominatedNodeName), readinessGates(p),
		},
		Conditions: endedConditions(p.Status.Phase),
	}
}

func orNone(s string) string {
	if s == "" {
		return table.None
	}
	return s
}

func podIP(p *corev1.Pod) string {
	if len(p.Status.PodIPs) > 0 {
		return p.Status.PodIPs[0].IP
	}
	return p.Status.PodIP
}

func readinessGates(p *corev1.Pod) string {
	if len(p.Spec.ReadinessGates) == 0 {
		return table.None
	}
	open := 0
	for _, g := range p.Spec.ReadinessGates {
		if podHas(p, g.ConditionType) {
			open++
		}
	}
	return fmt.Sprintf("%d/%d", open, len(p.Spec.ReadinessGates))
}

func podHas(p *corev1.Pod, condition corev1.PodConditionType) bool {
	for i := range p.Status.Conditions {
		if c := &p.Status.Conditions[i]; c.Type == condition {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// endedConditions let clients hide pods that have ended.
func endedConditions(phase corev1.PodPhase) []metav1.TableRowCondition {
	completed := metav1.TableRowCondition{Type: metav1.RowCompleted, Status: metav1.ConditionTrue, Reason: string(phase)}
	switch phase {
	case corev1.PodSucceeded:
		completed.Message = "The pod has completed successfully."
	case corev1.PodFailed:
		completed.Message = "The pod failed."
	default:
		return nil
	}
	return []metav1.TableRowCondition{completed}
}

// podSummary is what a row shows of a pod's containers.
type podSummary struct {
	ready, total int
	reason       string
	restarts     restarts
}

// restarts is the number of restarts and the time of the last.
type restarts struct {
	count int
	last  metav1.Time
}

func (r *restarts) add(c *corev1.ContainerStatus) {
	r.count += int(c.RestartCount)
	if t := c.LastTerminationState.Terminated; t != nil && r.last.Before(&t.FinishedAt) {
		r.last = t.FinishedAt
	}
}

func (s *podSummary) restartText() string {
	n := strconv.Itoa(s.restarts.count)
	if s.restarts.count == 0 || s.restarts.last.IsZero() {
		return n
	}
	return n + " (" + table.Since(s.restarts.last) + " ago)"
}

func (s *podSummary) look(p *corev1.Pod) {
	s.total = len(p.Spec.Containers)
	s.reason = string(p.Status.Phase)
	if p.Status.Reason != "" {
		s.reason = p.Status.Reason
	}
	for i := range p.Status.Conditions {
		if c := &p.Status.Conditions[i]; c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonSchedulingGated {
			s.reason = corev1.PodReasonSchedulingGated
		}
	}
	if initializing := s.lookAtInit(p); !initializing || podHas(p, corev1.PodInitialized) {
		s.lookAtMain(p)
	}
	switch {
	case p.DeletionTimestamp == nil:
	case p.Status.Reason == nodeLost:
		s.reason = string(corev1.PodUnknown)
	case !podEnded(p):
		s.reason = "Terminating"
	}
}

// nodeLost is the reason of pods whose node is unreachable.
const nodeLost = "NodeLost"

// lookAtInit examines the init containers up to the first that is not done.
func (s *podSummary) lookAtInit(p *corev1.Pod) (initializing bool) {
	sidecars := map[string]bool{}
	for i := range p.Spec.InitContainers {
		if c := &p.Spec.InitContainers[i]; c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			sidecars[c.Name] = true
			s.total++
		}
	}
	var ofSidecars restarts
	for i := 0; i < len(p.Status.InitContainerStatuses) && !initializing; i++ {
		c := &p.Status.InitContainerStatuses[i]
		s.restarts.add(c)
		if sidecars[c.Name] {
			ofSidecars.add(c)
		}
		switch t, w := c.State.Terminated, c.State.Waiting; {
		case t != nil && t.ExitCode == 0:
			continue
		case sidecars[c.Name] && c.Started != nil && *c.Started:
			if c.Ready {
				s.ready++
			}
			continue
		case t != nil:
			s.reason = "Init:" + endReason(t)
		case w != nil && w.Reason != "" && w.Reason != "PodInitializing":
			s.reason = "Init:" + w.Reason
		default:
			s.reason = fmt.Sprintf("Init:%d/%d", i, len(p.Spec.InitContainers))
		}
		initializing = true
	}
	if !initializing || podHas(p, corev1.PodInitialized) {
		s.restarts = ofSidecars
	}
	return initializing
}

func (s *podSummary) lookAtMain(p *corev1.Pod) {
	running := false
	for i := len(p.Status.ContainerStatuses) - 1; i >= 0; i-- {
		c := &p.Status.ContainerStatuses[i]
		s.restarts.add(c)
		switch {
		case c.State.Waiting != nil && c.State.Waiting.Reason != "":
			s.reason = c.State.Waiting.Reason
		case c.State.Terminated != nil:
			s.reason = endReason(c.State.Terminated)
		case c.Ready && c.State.Running != nil:
			running = true
			s.ready++
		}
	}
	if s.reason == "Completed" && running {
		s.reason = "NotReady"
		if podHas(p, corev1.PodReady) {
			s.reason = string(corev1.PodRunning)
		}
	}
}

func endReason(t *corev1.ContainerStateTerminated) string {
	switch {
	case t.Reason != "":
		return t.Reason
	case t.Signal != 0:
		return fmt.Sprintf("Signal:%d", t.Signal)
	}
	return fmt.Sprintf("ExitCode:%d", t.ExitCode)
}
