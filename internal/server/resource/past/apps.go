package past

import (
	"maps"
	"math"

	appsv1 "k8s.io/api/apps/v1"
	appsv1beta1 "k8s.io/api/apps/v1beta1"
	appsv1beta2 "k8s.io/api/apps/v1beta2"
	extensionsv1beta1 "k8s.io/api/extensions/v1beta1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func apps(k byName) {
	first, second := appsv1beta1.SchemeGroupVersion, appsv1beta2.SchemeGroupVersion
	add(k, "apps", "deployments",
		alike[*appsv1.Deployment, appsv1beta2.Deployment](second, "Deployment"),
		alike(first, "Deployment", func(now *appsv1.Deployment, _ *appsv1beta1.Deployment) {
			labelled(now, &now.Spec.Selector, now.Spec.Template.Labels)
			missing(&now.Spec.RevisionHistoryLimit, 2)
		}))
	add(k, "apps", "statefulsets",
		alike[*appsv1.StatefulSet, appsv1beta2.StatefulSet](second, "StatefulSet"),
		alike(first, "StatefulSet", func(now *appsv1.StatefulSet, _ *appsv1beta1.StatefulSet) {
			labelled(now, &now.Spec.Selector, now.Spec.Template.Labels)
			if now.Spec.UpdateStrategy.Type == "" {
				now.Spec.UpdateStrategy.Type = appsv1.OnDeleteStatefulSetStrategyType
			}
		}))
	add(k, "apps", "daemonsets", alike[*appsv1.DaemonSet, appsv1beta2.DaemonSet](second, "DaemonSet"))
	add(k, "apps", "replicasets", alike[*appsv1.ReplicaSet, appsv1beta2.ReplicaSet](second, "ReplicaSet"))
	add(k, "apps", "controllerrevisions",
		alike[*appsv1.ControllerRevision, appsv1beta1.ControllerRevision](first, "ControllerRevision"),
		alike[*appsv1.ControllerRevision, appsv1beta2.ControllerRevision](second, "ControllerRevision"))
}

// labelled sets the selector and the labels that the first versions took from the template.
func labelled(o metav1.Object, selector **metav1.LabelSelector, labels map[string]string) {
	if labels == nil {
		return
	}
	if *selector == nil {
		*selector = &metav1.LabelSelector{MatchLabels: maps.Clone(labels)}
	}
	if len(o.GetLabels()) == 0 {
		o.SetLabels(maps.Clone(labels))
	}
}

// extensions is the group in which these kinds began. Without a limit they kept what v1 bounds.
func extensions(k byName) {
	gv := extensionsv1beta1.SchemeGroupVersion
	add(k, "apps", "deployments", alike(gv, "Deployment", func(now *appsv1.Deployment, _ *extensionsv1beta1.Deployment) {
		labelled(now, &now.Spec.Selector, now.Spec.Template.Labels)
		missing(&now.Spec.RevisionHistoryLimit, math.MaxInt32)
		missing(&now.Spec.ProgressDeadlineSeconds, math.MaxInt32)
		if s := &now.Spec.Strategy; s.Type == "" || s.Type == appsv1.RollingUpdateDeploymentStrategyType || s.RollingUpdate != nil {
			missing(&s.RollingUpdate, appsv1.RollingUpdateDeployment{})
			missing(&s.RollingUpdate.MaxUnavailable, intstr.FromInt32(1))
			missing(&s.RollingUpdate.MaxSurge, intstr.FromInt32(1))
		}
	}))
	add(k, "apps", "daemonsets", alike(gv, "DaemonSet", func(now *appsv1.DaemonSet, _ *extensionsv1beta1.DaemonSet) {
		labelled(now, &now.Spec.Selector, now.Spec.Template.Labels)
		if now.Spec.UpdateStrategy.Type == "" {
			now.Spec.UpdateStrategy.Type = appsv1.OnDeleteDaemonSetStrategyType
		}
	}))
	add(k, "apps", "replicasets", alike(gv, "ReplicaSet", func(now *appsv1.ReplicaSet, _ *extensionsv1beta1.ReplicaSet) {
		labelled(now, &now.Spec.Selector, now.Spec.Template.Labels)
	}))
	add(k, "networking.k8s.io", "networkpolicies",
		alike[*networkingv1.NetworkPolicy, extensionsv1beta1.NetworkPolicy](gv, "NetworkPolicy"))
	add(k, "networking.k8s.io", "ingresses", alike(gv, "Ingress", func(now *networkingv1.Ingress, old *extensionsv1beta1.Ingress) {
		var same ingressSpec
		same.read(&old.Spec)
		same.write(now)
	}))
}
