package node

import (
	"maps"
	"runtime"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Version is the kubelet version in the node's status.
const Version = "v1.37.0"

// LocalVolumes is the annotation with the directory for volumes that the cluster's provisioner places on the node.
const LocalVolumes = "millrace.dev/local-volumes"

// Facts are the contents of a Node object.
type Facts struct {
	Name string
	// Hostname is the value of the label and the address: the node's name by default.
	Hostname  string
	Addresses []string
	// Port is the port of the kubelet's server. 0 means none.
	Port        int32
	Labels      map[string]string
	Annotations map[string]string
	Taints      []corev1.Taint
	Capacity    corev1.ResourceList
	// Reserved is subtracted from what pods may use.
	Reserved   corev1.ResourceList
	PodCIDR    string
	ProviderID string
	Info       corev1.NodeSystemInfo
	Images     []corev1.ContainerImage
	// Handlers and Features are what the container runtime can.
	Handlers []corev1.NodeRuntimeHandler
	Features *corev1.NodeFeatures
	// NotReady says why the node is not ready. Empty means ready.
	NotReady string
	// Pressure has the conditions that are true, of MemoryPressure, DiskPressure and PIDPressure.
	Pressure map[corev1.NodeConditionType]bool
	// Unschedulable registers the node as cordoned.
	Unschedulable bool
	// InUse are the attached volumes that pods of the node use.
	InUse []corev1.UniqueVolumeName
}

// Node returns the object that is registered.
func (f *Facts) Node(now time.Time) *corev1.Node {
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: f.Name, Labels: f.labels(), Annotations: map[string]string{
			"volumes.kubernetes.io/controller-managed-attach-detach": "true",
		}},
		Spec: corev1.NodeSpec{Taints: f.Taints, ProviderID: f.ProviderID, Unschedulable: f.Unschedulable},
	}
	maps.Copy(n.Annotations, f.Annotations)
	if f.PodCIDR != "" {
		n.Spec.PodCIDR, n.Spec.PodCIDRs = f.PodCIDR, []string{f.PodCIDR}
	}
	f.fill(&n.Status, now)
	return n
}

func (f *Facts) labels() map[string]string {
	labels := map[string]string{
		corev1.LabelHostname: f.hostname(), corev1.LabelOSStable: f.os(), corev1.LabelArchStable: f.arch(),
		"beta.kubernetes.io/os": f.os(), "beta.kubernetes.io/arch": f.arch(),
	}
	maps.Copy(labels, f.Labels)
	return labels
}

func (f *Facts) hostname() string {
	if f.Hostname != "" {
		return f.Hostname
	}
	return f.Name
}

func (f *Facts) os() string {
	if f.Info.OperatingSystem != "" {
		return f.Info.OperatingSystem
	}
	return runtime.GOOS
}

func (f *Facts) arch() string {
	if f.Info.Architecture != "" {
		return f.Info.Architecture
	}
	return runtime.GOARCH
}

// fill sets the parts of a status that the kubelet owns. Other conditions stay, and so does the capacity of other
// resources: administrators and operators announce extended resources in it.
func (f *Facts) fill(s *corev1.NodeStatus, now time.Time) {
	capacity := corev1.ResourceList{}
	maps.Copy(capacity, f.Capacity)
	for name, q := range s.Capacity {
		if _, own := capacity[name]; !own && !strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix) {
			capacity[name] = q
		}
	}
	s.Capacity, s.Allocatable = capacity, f.allocatable(capacity)
	s.Addresses = nil
	for _, a := range f.Addresses {
		s.Addresses = append(s.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: a})
	}
	s.Addresses = append(s.Addresses, corev1.NodeAddress{Type: corev1.NodeHostName, Address: f.hostname()})
	s.DaemonEndpoints.KubeletEndpoint.Port = f.Port
	s.NodeInfo = f.Info
	s.NodeInfo.OperatingSystem, s.NodeInfo.Architecture = f.os(), f.arch()
	if s.NodeInfo.KubeletVersion == "" {
		s.NodeInfo.KubeletVersion = Version
	}
	s.Images, s.RuntimeHandlers, s.Features = f.Images, f.Handlers, f.Features
	s.VolumesInUse = f.InUse
	for _, c := range f.conditions() {
		setCondition(s, c, metav1.Time{Time: now.Truncate(time.Second)})
	}
}

// allocatable returns what is left of a capacity for pods.
func (f *Facts) allocatable(capacity corev1.ResourceList) corev1.ResourceList {
	left := capacity.DeepCopy()
	for name, reserved := range f.Reserved {
		if q, ok := left[name]; ok {
			q.Sub(reserved)
			if q.Sign() < 0 {
				q = resource.Quantity{}
			}
			left[name] = q
		}
	}
	return left
}

func (f *Facts) conditions() []corev1.NodeCondition {
	all := []corev1.NodeCondition{
		f.pressure(corev1.NodeMemoryPressure, "KubeletHasSufficientMemory", "kubelet has sufficient memory available", "KubeletHasInsufficientMemory", "kubelet has insufficient memory available"),
		f.pressure(corev1.NodeDiskPressure, "KubeletHasNoDiskPressure", "kubelet has no disk pressure", "KubeletHasDiskPressure", "kubelet has disk pressure"),
		f.pressure(corev1.NodePIDPressure, "KubeletHasSufficientPID", "kubelet has sufficient PID available", "KubeletHasInsufficientPID", "kubelet has insufficient PID available"),
		{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", Message: "kubelet is posting ready status"},
	}
	if f.NotReady != "" {
		all[3] = corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionFalse, Reason: "KubeletNotReady", Message: f.NotReady}
	}
	return all
}

func (f *Facts) pressure(kind corev1.NodeConditionType, good, goodText, bad, badText string) corev1.NodeCondition {
	if f.Pressure[kind] {
		return corev1.NodeCondition{Type: kind, Status: corev1.ConditionTrue, Reason: bad, Message: badText}
	}
	return corev1.NodeCondition{Type: kind, Status: corev1.ConditionFalse, Reason: good, Message: goodText}
}

func setCondition(s *corev1.NodeStatus, c corev1.NodeCondition, now metav1.Time) {
	c.LastHeartbeatTime, c.LastTransitionTime = now, now
	for i := range s.Conditions {
		if was := &s.Conditions[i]; was.Type == c.Type {
			if was.Status == c.Status {
				c.LastTransitionTime = was.LastTransitionTime
			}
			s.Conditions[i] = c
			return
		}
	}
	s.Conditions = append(s.Conditions, c)
}
