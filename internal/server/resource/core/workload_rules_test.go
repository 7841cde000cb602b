package core

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/millrace/millrace/internal/server/resource/resourcetest"
)

func TestNodesRegisterWithTheirStatus(t *testing.T) {
	k := Nodes()
	n := &corev1.Node{}
	n.Name = "n"
	n.Status.Capacity = corev1.ResourceList{"cpu": resource.MustParse("4")}
	n.Spec.PodCIDR = "10.0.0.0/24"
	k.Default(n)
	if errs := resourcetest.Create(k.Faces[0], n); len(errs) > 0 {
		t.Fatal(errs)
	}
	if n.Status.Allocatable.Cpu().String() != "4" || !slices.Equal(n.Spec.PodCIDRs, []string{"10.0.0.0/24"}) || k.Generation {
		t.Errorf("got %+v", n)
	}
}

func TestNodesKeepWhatTellsThemApart(t *testing.T) {
	k := Nodes()
	old := &corev1.Node{}
	old.Name, old.Spec.ProviderID, old.Spec.PodCIDR, old.Spec.PodCIDRs = "n", "here", "10.0.0.0/24", []string{"10.0.0.0/24"}
	n := old.DeepCopy()
	n.Spec.ProviderID = "there"
	n.Spec.PodCIDRs = []string{"10.0.1.0/24"}
	n.Spec.Taints = []corev1.Taint{{Key: "a", Effect: "NoSchedule"}, {Key: "a", Effect: "NoSchedule"}}
	n.Status.Phase = "ignored"
	got := resourcetest.Causes(resourcetest.Update(k, k.Main, n, old))
	want := []string{
		`FieldValueDuplicate metadata.taints[1]: Duplicate value: {"Key":"a","Value":"","Effect":"NoSchedule","TimeAdded":null}: taints must be unique by key and effect pair`,
		`FieldValueForbidden spec.podCIDRs: Forbidden: node updates may not change podCIDR except from "" to valid`,
		`FieldValueForbidden spec.providerID: Forbidden: node updates may not change providerID except from "" to valid`,
		`FieldValueDuplicate metadata.taints[1]: Duplicate value: {"Key":"a","Value":"","Effect":"NoSchedule","TimeAdded":null}: taints must be unique by key and effect pair`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("want %q\ngot  %q", want, got)
	}
	if n.Status.Phase != "" {
		t.Error("the status changed through the main resource")
	}
}

func TestNodesTellStateAndRoles(t *testing.T) {
	n := &corev1.Node{}
	n.Labels = map[string]string{"node-role.kubernetes.io/worker": "", "node-role.kubernetes.io/control-plane": "", "kubernetes.io/role": "edge"}
	n.Spec.Unschedulable = true
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.0.2.1"}}
	row := nodeRow(n)
	if row.Cells[1] != "Ready,SchedulingDisabled" || row.Cells[2] != "control-plane,edge,worker" || row.Cells[5] != "192.0.2.1" || row.Cells[6] != "<none>" {
		t.Errorf("got %v", row.Cells)
	}
}

func TestReplicationControllersSelectByTheirTemplate(t *testing.T) {
	k := ReplicationControllers()
	rc := &corev1.ReplicationController{}
	rc.Name, rc.Namespace = "rc", "n"
	rc.Spec.Template = &corev1.PodTemplateSpec{}
	rc.Spec.Template.Spec.Containers = []corev1.Container{{Name: "a", Image: "x"}}
	k.Default(rc)
	got := resourcetest.Causes(resourcetest.Create(k.Faces[0], rc))
	if want := []string{"FieldValueRequired spec.selector: Required value"}; !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	rc.Spec.Template.Labels = map[string]string{"a": "b"}
	k.Default(rc)
	rc.Spec.Template.Labels["c"] = "d"
	if len(rc.Spec.Selector) != 1 || len(rc.Labels) != 1 {
		t.Errorf("selector %v and labels %v share the template's", rc.Spec.Selector, rc.Labels)
	}
	if errs := resourcetest.Create(k.Faces[0], rc); len(errs) > 0 {
		t.Error(errs)
	}
	rc.Spec.Template = nil
	if got, want := resourcetest.Causes(resourcetest.Create(k.Faces[0], rc)), []string{"FieldValueRequired spec.template: Required value"}; !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}
