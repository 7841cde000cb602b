package daemonset

import (
	"maps"
	"reflect"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/watchlist"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"

	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/internal/controllers/owned"
	"github.com/millrace/millrace/internal/controllers/podview"
	"github.com/millrace/millrace/loop"
)

// nodeView is the part of a node that decides whether a pod may run there.
type nodeView struct {
	metav1.ObjectMeta
	Taints []corev1.Taint
}

// nodeViews returns the informer of all nodes. A sync looks at thousands of them, so it must not decode them.
func nodeViews(c *loop.Clients) *informer.Shared[*nodeView] {
	return informer.ShareProjection(c.Informers, informer.For(c.Kube.CoreV1().Nodes()), nodeViewOf, informer.Options[*nodeView]{
		Name: "places", Logger: c.Log, DropManagedFields: true, DisableStreaming: watchlist.DoesClientNotSupportWatchListSemantics(c.Kube),
	})
}

func nodeViewOf(node *corev1.Node) *nodeView {
	return &nodeView{
		ObjectMeta: metav1.ObjectMeta{Name: node.Name, UID: node.UID, ResourceVersion: node.ResourceVersion, Labels: node.Labels},
		Taints:     node.Spec.Taints,
	}
}

// fit decides on which nodes the pods of a DaemonSet may run.
type fit struct {
	nodeName    string
	affinity    nodeaffinity.RequiredNodeAffinity
	tolerations []corev1.Toleration
}

func fitOf(ds *appsv1.DaemonSet) fit {
	pod := &ds.Spec.Template.Spec
	return fit{
		nodeName: pod.NodeName, affinity: nodeaffinity.NewRequiredNodeAffinity(pod.NodeSelector, pod.Affinity),
		tolerations: tolerations(pod),
	}
}

// on reports whether a pod should run on a node, and whether an existing one may stay.
func (f *fit) on(p *nodeView) (run, stay bool) {
	if f.nodeName != "" && f.nodeName != p.Name {
		return false, false
	}
	if matches, err := f.affinity.Match(&corev1.Node{ObjectMeta: p.ObjectMeta}); err != nil || !matches {
		return false, false
	}
	run, stay = true, true
	for i := range p.Taints {
		taint := &p.Taints[i]
		if taint.Effect == corev1.TaintEffectPreferNoSchedule || f.tolerates(taint) {
			continue
		}
		run = false
		stay = stay && taint.Effect != corev1.TaintEffectNoExecute
	}
	return run, stay
}

func (f *fit) tolerates(taint *corev1.Taint) bool {
	for i := range f.tolerations {
		if f.tolerations[i].ToleratesTaint(klog.Logger{}, taint, true) {
			return true
		}
	}
	return false
}

// nodeChanged wakes all DaemonSets for which a node has changed.
func (c *controller) nodeChanged(before, after *nodeView) []loop.Key {
	if before != nil && after != nil && maps.Equal(before.Labels, after.Labels) && reflect.DeepEqual(before.Taints, after.Taints) {
		return nil
	}
	var all []loop.Key
	for ds := range c.sets.List() {
		all = append(all, informer.KeyOf(ds))
	}
	return all
}

// podChanged wakes the DaemonSet that owns, or owned, a pod, or those that might adopt it.
func (c *controller) podChanged(before, after *podview.Pod) (keys []loop.Key) {
	for _, pod := range []*podview.Pod{before, after} {
		if pod == nil {
			continue
		}
		if ref := metav1.GetControllerOfNoCopy(pod); ref != nil && ref.Kind == kind.Kind {
			keys = append(keys, loop.Key{Namespace: pod.Namespace, Name: ref.Name})
		}
	}
	if after == nil || !owned.Orphan(after) {
		return keys
	}
	if before != nil && owned.Orphan(before) && maps.Equal(before.Labels, after.Labels) {
		return keys
	}
	return append(keys, owned.MatchingOwners(c.sets, after, func(ds *appsv1.DaemonSet) *metav1.LabelSelector { return ds.Spec.Selector })...)
}
