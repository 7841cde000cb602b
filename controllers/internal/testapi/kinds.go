package testapi

import (
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Usual are the kinds that most tests need.
var Usual = []Kind{
	namespaced(corev1.SchemeGroupVersion, "Pod", "pods"),
	namespaced(corev1.SchemeGroupVersion, "Service", "services"),
	namespaced(corev1.SchemeGroupVersion, "Endpoints", "endpoints"),
	namespaced(corev1.SchemeGroupVersion, "ConfigMap", "configmaps"),
	namespaced(corev1.SchemeGroupVersion, "ServiceAccount", "serviceaccounts"),
	namespaced(corev1.SchemeGroupVersion, "Event", "events"),
	cluster(corev1.SchemeGroupVersion, "Namespace", "namespaces"),
	cluster(corev1.SchemeGroupVersion, "Node", "nodes"),
	namespaced(appsv1.SchemeGroupVersion, "Deployment", "deployments"),
	namespaced(appsv1.SchemeGroupVersion, "ReplicaSet", "replicasets"),
	namespaced(corev1.SchemeGroupVersion, "ReplicationController", "replicationcontrollers"),
	namespaced(batchv1.SchemeGroupVersion, "Job", "jobs"),
	namespaced(discoveryv1.SchemeGroupVersion, "EndpointSlice", "endpointslices"),
	namespaced(coordinationv1.SchemeGroupVersion, "Lease", "leases"),
}

func namespaced(gv schema.GroupVersion, kind, resource string) Kind {
	return Kind{GroupVersionKind: gv.WithKind(kind), Resource: resource, Namespaced: true}
}

func cluster(gv schema.GroupVersion, kind, resource string) Kind {
	return Kind{GroupVersionKind: gv.WithKind(kind), Resource: resource}
}
