package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// firstRevision has as many digits as all that follow, so that a revision can be changed in encoded bytes.
const firstRevision = 1_000_000_000

// encodedPod is a pod in both wire formats.
type encodedPod struct {
	json, proto       []byte
	jsonRev, protoRev int // the offsets of the revision
}

// at returns the pod's bytes with a revision written at the offset.
func at(content []byte, offset int, revision int64) []byte {
	content = bytes.Clone(content)
	copy(content[offset:], fmt.Sprint(revision))
	return content
}

func encodePod(i int) encodedPod {
	p := newPod(i)
	var e encodedPod
	var err error
	if e.proto, err = p.Marshal(); err != nil {
		panic(err)
	}
	p.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
	if e.json, err = json.Marshal(p); err != nil {
		panic(err)
	}
	revision := []byte(fmt.Sprint(firstRevision))
	e.jsonRev, e.protoRev = bytes.Index(e.json, revision), bytes.Index(e.proto, revision)
	return e
}

// newPod returns a running pod of a Deployment, with two containers, as on a real cluster.
func newPod(i int) *corev1.Pod {
	app, node := i/50, i%1000
	started := metav1.NewTime(time.Date(2026, 1, 1, 0, 0, i%86400, 0, time.UTC))
	set := fmt.Sprintf("service-%04d-7d9c6b8f5", app)
	uid := func(kind, n int) types.UID {
		return types.UID(fmt.Sprintf("%08x-%04x-4d5e-9abc-%012x", n*2654435761%(1<<32), kind, n))
	}
	yes, user, seconds, tolerate := true, int64(10001), int64(3607), int64(300)
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: fmt.Sprintf("%s-%05x", set, i), Namespace: fmt.Sprintf("team-%02d", app%40), UID: uid(1, i),
		GenerateName: set + "-", ResourceVersion: fmt.Sprint(firstRevision), CreationTimestamp: started, Generation: 1,
		Labels: map[string]string{"app.kubernetes.io/name": fmt.Sprintf("service-%04d", app), "app.kubernetes.io/part-of": fmt.Sprintf("product-%02d", app%20),
			"app.kubernetes.io/version": "1.27.3", "pod-template-hash": "7d9c6b8f5", "team": fmt.Sprintf("team-%02d", app%40)},
		Annotations: map[string]string{"prometheus.io/scrape": "true", "prometheus.io/port": "9090",
			"kubectl.kubernetes.io/restartedAt": "2026-01-01T00:00:00Z", "checksum/config": fmt.Sprintf("%064x", app)},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: set, UID: uid(2, app), Controller: &yes, BlockOwnerDeletion: &yes}},
		ManagedFields: []metav1.ManagedFieldsEntry{
			{Manager: "kube-controller-manager", Operation: "Update", APIVersion: "v1", Time: &started, FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(specFields)},
			{Manager: "kubelet", Operation: "Update", APIVersion: "v1", Time: &started, FieldsType: "FieldsV1", Subresource: "status", FieldsV1: metav1.NewFieldsV1(statusFields)},
		},
	}}
	mounts := []corev1.VolumeMount{{Name: "config", MountPath: "/etc/service", ReadOnly: true},
		{Name: "kube-api-access-x7k2p", MountPath: "/var/run/secrets/kubernetes.io/serviceaccount", ReadOnly: true}}
	p.Spec = corev1.PodSpec{
		NodeName: fmt.Sprintf("node-%04d.cluster.example", node), ServiceAccountName: fmt.Sprintf("service-%04d", app),
		DeprecatedServiceAccount: fmt.Sprintf("service-%04d", app), SchedulerName: "default-scheduler", RestartPolicy: "Always",
		DNSPolicy: "ClusterFirst", EnableServiceLinks: &yes, SecurityContext: &corev1.PodSecurityContext{RunAsNonRoot: &yes, RunAsUser: &user},
		Containers: []corev1.Container{container("service", fmt.Sprintf("images.example/team/service-%04d:1.27.3", app), app, mounts),
			container("proxy", "images.example/mesh/proxy:2.9.1", app, mounts)},
		Tolerations: []corev1.Toleration{{Key: "node.kubernetes.io/not-ready", Operator: "Exists", Effect: "NoExecute", TolerationSeconds: &tolerate},
			{Key: "node.kubernetes.io/unreachable", Operator: "Exists", Effect: "NoExecute", TolerationSeconds: &tolerate}},
		Volumes: []corev1.Volume{
			{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
				LocalObjectReference: corev1.LocalObjectReference{Name: fmt.Sprintf("service-%04d", app)},
			}}},
			{Name: "kube-api-access-x7k2p", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
				{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{ExpirationSeconds: &seconds, Path: "token"}},
				{ConfigMap: &corev1.ConfigMapProjection{
					LocalObjectReference: corev1.LocalObjectReference{Name: "kube-root-ca.crt"}, Items: []corev1.KeyToPath{{Key: "ca.crt", Path: "ca.crt"}},
				}},
				{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{{
					Path: "namespace", FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.namespace"},
				}}}},
			}}}},
		},
	}
	ip := fmt.Sprintf("10.%d.%d.%d", i>>16&255, i>>8&255, i&255)
	p.Status = corev1.PodStatus{Phase: "Running", HostIP: fmt.Sprintf("192.168.%d.%d", node>>8, node&255), PodIP: ip,
		PodIPs: []corev1.PodIP{{IP: ip}}, StartTime: &started, QOSClass: "Burstable"}
	for _, kind := range []corev1.PodConditionType{"PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"} {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: kind, Status: "True", LastTransitionTime: started})
	}
	for n, c := range p.Spec.Containers {
		p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{Name: c.Name, Ready: true, Started: &yes,
			Image: c.Image, ImageID: fmt.Sprintf("images.example/team@sha256:%064x", app*2+n), ContainerID: fmt.Sprintf("containerd://%064x", i*2+n),
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: started}}})
	}
	return p
}

func container(name, image string, app int, mounts []corev1.VolumeMount) corev1.Container {
	probe := &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/healthz", Port: portOf(8080), Scheme: "HTTP"}},
		InitialDelaySeconds: 5, TimeoutSeconds: 1, PeriodSeconds: 10, SuccessThreshold: 1, FailureThreshold: 3}
	return corev1.Container{Name: name, Image: image, Args: []string{"--config=/etc/service/config.yaml", "--log-level=info"},
		Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8080, Protocol: "TCP"}, {Name: "metrics", ContainerPort: 9090, Protocol: "TCP"}},
		Env: []corev1.EnvVar{{Name: "POD_NAME", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.name"}}},
			{Name: "SERVICE_NAME", Value: fmt.Sprintf("service-%04d", app)}, {Name: "DATABASE_HOST", Value: fmt.Sprintf("database-%02d.data.svc.cluster.local", app%20)}},
		Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("250m"), "memory": resource.MustParse("512Mi")},
			Limits: corev1.ResourceList{"memory": resource.MustParse("1Gi")}},
		VolumeMounts: mounts, LivenessProbe: probe, ReadinessProbe: probe, ImagePullPolicy: "IfNotPresent",
		TerminationMessagePath: "/dev/termination-log", TerminationMessagePolicy: "File"}
}

// envelope wraps a protobuf message as the API sends a single object.
func envelope(kind string, raw []byte) []byte {
	unknown := runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: "v1", Kind: kind}, Raw: raw}
	content, err := unknown.Marshal()
	if err != nil {
		panic(err)
	}
	return append([]byte("k8s\x00"), content...)
}

const specFields = `{"f:metadata":{"f:annotations":{".":{},"f:checksum/config":{},"f:prometheus.io/port":{},` +
	`"f:prometheus.io/scrape":{}},"f:generateName":{},"f:labels":{".":{},"f:app.kubernetes.io/name":{},` +
	`"f:app.kubernetes.io/part-of":{},"f:app.kubernetes.io/version":{},"f:pod-template-hash":{},"f:team":{}},` +
	`"f:ownerReferences":{".":{},"k:{\"uid\":\"00000000-0000-0000-0000-000000000000\"}":{}}},` +
	`"f:spec":{"f:containers":{"k:{\"name\":\"service\"}":{".":{},"f:args":{},"f:env":{".":{},` +
	`"k:{\"name\":\"SERVICE_NAME\"}":{".":{},"f:name":{},"f:value":{}}},"f:image":{},"f:imagePullPolicy":{},` +
	`"f:name":{},"f:ports":{".":{},"k:{\"containerPort\":8080,\"protocol\":\"TCP\"}":{".":{},` +
	`"f:containerPort":{},"f:name":{},"f:protocol":{}}},"f:resources":{}}},"f:dnsPolicy":{},` +
	`"f:enableServiceLinks":{},"f:restartPolicy":{},"f:schedulerName":{},"f:volumes":{}}}`

const statusFields = `{"f:status":{"f:conditions":{"k:{\"type\":\"ContainersReady\"}":{".":{},"f:lastTransitionTime":{},` +
	`"f:status":{},"f:type":{}},"k:{\"type\":\"Initialized\"}":{".":{},"f:lastTransitionTime":{},` +
	`"f:status":{},"f:type":{}},"k:{\"type\":\"Ready\"}":{".":{},"f:lastTransitionTime":{},"f:status":{},` +
	`"f:type":{}}},"f:containerStatuses":{},"f:hostIP":{},"f:phase":{},"f:podIP":{},"f:podIPs":{},` +
	`"f:startTime":{}}}`
