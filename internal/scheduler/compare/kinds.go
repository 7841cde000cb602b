package main

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/storage/volume"
)

// kind is a kind of pods to place.
type kind struct {
	pod func(*corev1.Pod)
	// before creates what one pod needs, or what must exist before all pods; nil: nothing.
	before func(ctx context.Context, w *world, name string) error
	first  func(ctx context.Context, w *world) error
	// most is the maximum number of pods of the kind; nil: no maximum.
	most func(nodes int) int
}

var kindsOfPods = map[string]kind{
	// plain pods request a little CPU and memory.
	"plain": {pod: func(*corev1.Pod) {}},
	// spread pods have a maxSkew of one between zones, and prefer to be spread over nodes.
	"spread": {pod: spread},
	// service pods belong to a service, so they are spread by default.
	"service": {pod: func(p *corev1.Pod) { p.Labels["served"] = "yes" }},
	// apart pods need a node each.
	"apart": {pod: apart, most: func(nodes int) int { return nodes }},
	// volume pods have a bound volume each.
	"volume": {before: boundVolume, pod: withVolume},
	// preempt pods have a higher priority than the pods that fill all nodes.
	"preempt": {first: fillNodes, pod: important, most: func(nodes int) int { return nodes * lowPods / 2 }},
}

func spread(p *corev1.Pod) {
	even := func(key string, otherwise corev1.UnsatisfiableConstraintAction) corev1.TopologySpreadConstraint {
		return corev1.TopologySpreadConstraint{
			MaxSkew: 1, TopologyKey: key, WhenUnsatisfiable: otherwise, LabelSelector: &metav1.LabelSelector{MatchLabels: p.Labels},
		}
	}
	p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{
		even(corev1.LabelTopologyZone, corev1.DoNotSchedule), even(corev1.LabelHostname, corev1.ScheduleAnyway),
	}
}

func apart(p *corev1.Pod) {
	p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
			TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: p.Labels},
		}},
	}}
}

func withVolume(p *corev1.Pod) {
	p.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: p.Name},
	}}}
}

// boundVolume makes a volume and a claim that are bound to each other, as a driver does.
func boundVolume(ctx context.Context, w *world, name string) error {
	kube := w.kube.CoreV1()
	class, size := "", corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	access := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	claim, err := kube.PersistentVolumeClaims(w.namespace).Create(ctx, &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{volume.AnnBindCompleted: "true"}},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: access, StorageClassName: &class, VolumeName: w.namespace + "-" + name, Resources: corev1.VolumeResourceRequirements{Requests: size},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	claim.Status.Phase = corev1.ClaimBound
	if _, err := kube.PersistentVolumeClaims(w.namespace).UpdateStatus(ctx, claim, metav1.UpdateOptions{}); err != nil {
		return err
	}
	v, err := kube.PersistentVolumes().Create(ctx, &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: w.namespace + "-" + name, Labels: map[string]string{"compare-schedulers": "volume"}},
		Spec: corev1.PersistentVolumeSpec{
			AccessModes: access, Capacity: size, PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			ClaimRef:               &corev1.ObjectReference{Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: w.namespace, Name: name, UID: claim.UID},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "disks.example.com", VolumeHandle: name}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	v.Status.Phase = corev1.VolumeBound
	_, err = kube.PersistentVolumes().UpdateStatus(ctx, v, metav1.UpdateOptions{})
	return err
}

// lowPods is the number of pods with a lower priority that fill a node.
const lowPods = 4

const highPriority = "compare-schedulers-high"

// important pods need as much as one pod with a lower priority has.
func important(p *corev1.Pod) {
	p.Spec.PriorityClassName = highPriority
	p.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("8")
}

// fillNodes binds pods to all nodes. They end at once when they are deleted.
func fillNodes(ctx context.Context, w *world) error {
	_, err := w.kube.SchedulingV1().PriorityClasses().Create(ctx, &schedulingv1.PriorityClass{
		ObjectMeta: metav1.ObjectMeta{Name: highPriority}, Value: 1000,
	}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	now := int64(0)
	return each(ctx, w.nodes*lowPods, func(ctx context.Context, i int) error {
		node := fmt.Sprintf("compare-%05d", i/lowPods)
		p := w.pod(fmt.Sprintf("low-%06d", i), map[string]string{"low": "yes"})
		p.Spec.NodeName, p.Spec.TerminationGracePeriodSeconds = node, &now
		p.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("8")
		low, err := w.kube.CoreV1().Pods(w.namespace).Create(ctx, p, metav1.CreateOptions{})
		if err != nil {
			return err
		}
		patch := fmt.Sprintf(`{"status":{"phase":"Running","startTime":%q}}`, low.CreationTimestamp.UTC().Format("2006-01-02T15:04:05Z"))
		_, err = w.kube.CoreV1().Pods(w.namespace).Patch(ctx, p.Name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, "status")
		return err
	})
}
