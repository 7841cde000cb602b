package core

import (
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/millrace/millrace/internal/demand"
	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/resource/podspec"
)

// Pods are containers that run together on one node.
func Pods() *resource.Kind {
	return resource.Define(resource.Description[*corev1.Pod]{
		Version: "v1", Kind: "Pod", Resource: "pods",
		ValidateMetaTwice: true,
		Namespaced:        true, ShortNames: []string{"po"}, Categories: []string{"all"},
		UnconditionalUpdate: true, ReturnDeleted: true,
		Default:  podspec.Default,
		Rules:    podRules,
		Status:   &podStatusRules,
		Views:    map[string]resource.View[*corev1.Pod]{"ephemeralcontainers": {Rules: ephemeralRules}, "resize": {Rules: resizeRules}},
		Actions:  podActions,
		Graceful: podGrace,
		Fields: []resource.Field{
			{Label: "spec.nodeName", Indexed: true},
			{Label: "spec.restartPolicy"},
			{Label: "spec.schedulerName"},
			{Label: "spec.serviceAccountName"},
			{Label: "spec.hostNetwork"},
			{Label: "status.phase"},
			{Label: "status.podIP"},
			{Label: "status.nominatedNodeName"},
		},
		Columns: podColumns,
		Row:     podRow,
	})
}

// Bindings assign a pod to a node; they can only be created.
func Bindings() *resource.Kind {
	return resource.Define(resource.Description[*corev1.Binding]{
		Version: "v1", Kind: "Binding", Resource: "bindings", Namespaced: true,
		NoVerbs: []string{"delete", "deletecollection", "get", "list", "patch", "update", "watch"},
	})
}

var connect = []string{"create", "get"}

var podActions = []resource.Action{
	{Name: "binding", Body: corev1.SchemeGroupVersion.WithKind("Binding"), Verbs: []string{"create"},
		New: func() runtime.Object { return &corev1.Binding{} }},
	{Name: "eviction", Body: policyv1.SchemeGroupVersion.WithKind("Eviction"), Verbs: []string{"create"},
		New: func() runtime.Object { return &policyv1.Eviction{} }},
	{Name: "log", Body: corev1.SchemeGroupVersion.WithKind("Pod"), Verbs: []string{"get"}},
	{Name: "exec", Body: corev1.SchemeGroupVersion.WithKind("PodExecOptions"), Verbs: connect},
	{Name: "attach", Body: corev1.SchemeGroupVersion.WithKind("PodAttachOptions"), Verbs: connect},
	{Name: "portforward", Body: corev1.SchemeGroupVersion.WithKind("PodPortForwardOptions"), Verbs: connect},
	{Name: "proxy", Body: corev1.SchemeGroupVersion.WithKind("PodProxyOptions"), Verbs: proxyVerbs},
}

// proxyVerbs are the verbs of a path that forwards every request.
var proxyVerbs = []string{"create", "delete", "get", "patch", "update"}

// podGrace returns the grace period of a pod. It is zero if no container of it runs or will run.
func podGrace(p *corev1.Pod, requested *int64) (int64, bool) {
	if p.Spec.NodeName == "" || podEnded(p) {
		return 0, true
	}
	var seconds int64
	switch {
	case requested != nil:
		seconds = *requested
	case p.Spec.TerminationGracePeriodSeconds != nil:
		seconds = *p.Spec.TerminationGracePeriodSeconds
	}
	if seconds < 0 {
		return 1, true
	}
	return seconds, true
}

func podEnded(p *corev1.Pod) bool {
	return demand.Finished(p.Status.Phase)
}
