package core

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/resource/table"
)

// Nodes are the machines that run pods.
func Nodes() *resource.Kind {
	return resource.Define(resource.Description[*corev1.Node]{
		Version: "v1", Kind: "Node", Resource: "nodes", Prefix: "minions", ShortNames: []string{"no"},
		ValidateMetaTwice: true,
		NoGeneration:      true, UnconditionalUpdate: true, StatusOnCreate: true,
		Default: defaultNode,
		Rules:   nodeRules,
		Status:  &nodeStatusRules,
		Actions: []resource.Action{
			{Name: "proxy", Body: corev1.SchemeGroupVersion.WithKind("NodeProxyOptions"), Verbs: proxyVerbs},
		},
		Fields:  []resource.Field{{Label: "spec.unschedulable"}},
		Columns: nodeColumns,
		Row:     nodeRow,
	})
}

func defaultNode(n *corev1.Node) {
	if n.Status.Allocatable == nil && n.Status.Capacity != nil {
		n.Status.Allocatable = n.Status.Capacity.DeepCopy()
	}
	switch s := &n.Spec; {
	case len(s.PodCIDRs) > 0:
		s.PodCIDR = s.PodCIDRs[0]
	case s.PodCIDR != "":
		s.PodCIDRs = []string{s.PodCIDR}
	}
}

var nodeSystemDoc = corev1.NodeSystemInfo{}.SwaggerDoc()

var nodeColumns = []table.Column{
	table.Name(),
	table.Text("Status", "The status of the node"),
	table.Text("Roles", "The roles of the node"),
	table.Age(),
	table.Text("Version", nodeSystemDoc["kubeletVersion"]),
	table.Wide(table.Text("Internal-IP", corev1.NodeStatus{}.SwaggerDoc()["addresses"])),
	table.Wide(table.Text("External-IP", corev1.NodeStatus{}.SwaggerDoc()["addresses"])),
	table.Wide(table.Text("OS-Image", nodeSystemDoc["osImage"])),
	table.Wide(table.Text("Kernel-Version", nodeSystemDoc["kernelVersion"])),
	table.Wide(table.Text("Container-Runtime", nodeSystemDoc["containerRuntimeVersion"])),
}

func nodeRow(n *corev1.Node) resource.Row {
	i := &n.Status.NodeInfo
	return resource.Row{Cells: []any{
		n.Name, nodeState(n), nodeRoles(n), table.Since(n.CreationTimestamp), i.KubeletVersion,
		nodeAddress(n, corev1.NodeInternalIP), nodeAddress(n, corev1.NodeExternalIP),
		orUnknown(i.OSImage), kernelOf(i), orUnknown(i.ContainerRuntimeVersion),
	}}
}

func nodeState(n *corev1.Node) string {
	state := "Unknown"
	for i := range n.Status.Conditions {
		if c := &n.Status.Conditions[i]; c.Type == corev1.NodeReady {
			if state = "NotReady"; c.Status == corev1.ConditionTrue {
				state = "Ready"
			}
		}
	}
	if n.Spec.Unschedulable {
		state += ",SchedulingDisabled"
	}
	return state
}

// Roles are labels, in an old and a new form.
const (
	rolePrefix = "node-role.kubernetes.io/"
	roleLabel  = "kubernetes.io/role"
)

func nodeRoles(n *corev1.Node) string {
	roles := map[string]bool{}
	for key, value := range n.Labels {
		if role, ok := strings.CutPrefix(key, rolePrefix); ok && role != "" {
			roles[role] = true
		} else if key == roleLabel && value != "" {
			roles[value] = true
		}
	}
	return orNone(strings.Join(slices.Sorted(maps.Keys(roles)), ","))
}

func nodeAddress(n *corev1.Node, kind corev1.NodeAddressType) string {
	for _, a := range n.Status.Addresses {
		if a.Type == kind {
			return a.Address
		}
	}
	return table.None
}

// kernelOf returns the kernel version and, if known, the architecture of a node.
func kernelOf(i *corev1.NodeSystemInfo) string {
	kernel := orUnknown(i.KernelVersion)
	if i.Architecture == "" {
		return kernel
	}
	return kernel + " (" + i.Architecture + ")"
}

func orUnknown(s string) string {
	if s == "" {
		return table.Unknown
	}
	return s
}
