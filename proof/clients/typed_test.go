package clients_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	appsapply "k8s.io/client-go/applyconfigurations/apps/v1"
	coreapply "k8s.io/client-go/applyconfigurations/core/v1"
	metaapply "k8s.io/client-go/applyconfigurations/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/utils/ptr"

	"github.com/millrace/millrace"
)

func TestTypedClientsCarryOutAllVerbs(t *testing.T) {
	eachWire(t, func(t *testing.T, k *kubernetes.Clientset, ns string) {
		maps := k.CoreV1().ConfigMaps(ns)
		made := must(maps.Create(t.Context(), configMap("a", map[string]string{"l": "1"}), metav1.CreateOptions{}))(t)
		if made.UID == "" || made.ResourceVersion == "" || made.CreationTimestamp.IsZero() {
			t.Errorf("created without identity: %+v", made.ObjectMeta)
		}
		if _, err := maps.Create(t.Context(), configMap("a", nil), metav1.CreateOptions{}); !apierrors.IsAlreadyExists(err) {
			t.Errorf("a second create: %v", err)
		}
		made.Data["k"] = "w"
		updated := must(maps.Update(t.Context(), made, metav1.UpdateOptions{}))(t)
		if updated.ResourceVersion == made.ResourceVersion {
			t.Error("an update did not change the version")
		}
		if _, err := maps.Update(t.Context(), made, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
			t.Errorf("an update from an old version: %v", err)
		}
		if same := must(maps.Update(t.Context(), updated, metav1.UpdateOptions{}))(t); same.ResourceVersion != updated.ResourceVersion {
			t.Error("an update that changes nothing made a version")
		}
		got := must(maps.Get(t.Context(), "a", metav1.GetOptions{}))(t)
		if got.Data["k"] != "w" || got.ResourceVersion != updated.ResourceVersion {
			t.Errorf("got %v", got)
		}
		for i := range 30 {
			must(maps.Create(t.Context(), configMap(fmt.Sprintf("b%02d", i), map[string]string{"even": fmt.Sprint(i%2 == 0)}), metav1.CreateOptions{}))(t)
		}
		list := must(maps.List(t.Context(), metav1.ListOptions{LabelSelector: "even=true"}))(t)
		if len(list.Items) != 15 || list.Items[3].Data["k"] != "v" || list.ResourceVersion == "" {
			t.Errorf("%d items at %q", len(list.Items), list.ResourceVersion)
		}
		if err := maps.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "even=false"}); err != nil {
			t.Error(err)
		}
		if err := maps.Delete(t.Context(), "a", metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: ptr.To(types.UID("other"))}}); !apierrors.IsConflict(err) {
			t.Errorf("a delete with another uid: %v", err)
		}
		if err := maps.Delete(t.Context(), "a", metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &made.UID, ResourceVersion: &updated.ResourceVersion}}); err != nil {
			t.Error(err)
		}
		if _, err := maps.Get(t.Context(), "a", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("after the delete: %v", err)
		}
		if list := must(maps.List(t.Context(), metav1.ListOptions{}))(t); len(list.Items) != 15 {
			t.Errorf("%d are left", len(list.Items))
		}
	})
}

func TestEveryKindOfPatch(t *testing.T) {
	eachWire(t, func(t *testing.T, k *kubernetes.Clientset, ns string) {
		d := k.AppsV1().Deployments(ns)
		must(d.Create(t.Context(), deployment("d"), metav1.CreateOptions{}))(t)
		patch := func(kind types.PatchType, text string, sub ...string) *appsv1.Deployment {
			t.Helper()
			return must(d.Patch(t.Context(), "d", kind, []byte(text), metav1.PatchOptions{}, sub...))(t)
		}
		if got := patch(types.MergePatchType, `{"spec":{"replicas":3},"metadata":{"annotations":{"a":"b"}}}`); *got.Spec.Replicas != 3 || got.Generation != 2 {
			t.Errorf("merge: %d, generation %d", *got.Spec.Replicas, got.Generation)
		}
		if got := patch(types.StrategicMergePatchType, `{"spec":{"template":{"spec":{"containers":[{"name":"more","image":"m"}]}}}}`); len(got.Spec.Template.Spec.Containers) != 2 {
			t.Errorf("strategic: %v", got.Spec.Template.Spec.Containers)
		}
		if got := patch(types.StrategicMergePatchType, `{"spec":{"template":{"spec":{"containers":[{"name":"more","$patch":"delete"}]}}}}`); len(got.Spec.Template.Spec.Containers) != 1 {
			t.Errorf("strategic delete: %v", got.Spec.Template.Spec.Containers)
		}
		if got := patch(types.JSONPatchType, `[{"op":"test","path":"/spec/replicas","value":3},{"op":"remove","path":"/metadata/annotations/a"}]`); got.Annotations["a"] != "" {
			t.Errorf("JSON: %v", got.Annotations)
		}
		if _, err := d.Patch(t.Context(), "d", types.JSONPatchType, []byte(`[{"op":"test","path":"/spec/replicas","value":4}]`), metav1.PatchOptions{}); !apierrors.IsInvalid(err) {
			t.Errorf("a test that fails: %v", err)
		}
		if got := patch(types.MergePatchType, `{"status":{"replicas":7,"observedGeneration":1},"spec":{"replicas":9}}`, "status"); got.Status.Replicas != 7 || *got.Spec.Replicas != 3 {
			t.Errorf("status: %d replicas, spec %d", got.Status.Replicas, *got.Spec.Replicas)
		}
		if _, err := d.Patch(t.Context(), "d", types.MergePatchType, []byte(`{"metadata":{"resourceVersion":"1"}}`), metav1.PatchOptions{}); !apierrors.IsConflict(err) {
			t.Errorf("a patch of an old version: %v", err)
		}
	})
}

func deployment(name string) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: appsv1.DeploymentSpec{
		Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}}}
}

func TestApplyFindsConflictsAndForceEndsThem(t *testing.T) {
	eachWire(t, func(t *testing.T, k *kubernetes.Clientset, ns string) {
		wanted := func(replicas int32) *appsapply.DeploymentApplyConfiguration {
			return appsapply.Deployment("d", ns).WithSpec(appsapply.DeploymentSpec().WithReplicas(replicas).
				WithSelector(metaapply.LabelSelector().WithMatchLabels(map[string]string{"app": "d"})).
				WithTemplate(coreapply.PodTemplateSpec().WithLabels(map[string]string{"app": "d"}).
					WithSpec(coreapply.PodSpec().WithContainers(coreapply.Container().WithName("c").WithImage("i")))))
		}
		d := k.AppsV1().Deployments(ns)
		must(d.Apply(t.Context(), wanted(1), metav1.ApplyOptions{FieldManager: "one"}))(t)
		_, err := d.Apply(t.Context(), wanted(2), metav1.ApplyOptions{FieldManager: "two"})
		if !apierrors.IsConflict(err) || !strings.Contains(err.Error(), ".spec.replicas") || !strings.Contains(err.Error(), `"one"`) {
			t.Errorf("the conflict reads %v", err)
		}
		forced := must(d.Apply(t.Context(), wanted(2), metav1.ApplyOptions{FieldManager: "two", Force: true}))(t)
		if *forced.Spec.Replicas != 2 {
			t.Errorf("%d replicas", *forced.Spec.Replicas)
		}
		// A field that a manager no longer applies is removed, unless another manager owns it.
		without := appsapply.Deployment("d", ns).WithLabels(map[string]string{"x": "y"})
		must(d.Apply(t.Context(), wanted(2).WithLabels(map[string]string{"mine": "1"}), metav1.ApplyOptions{FieldManager: "two"}))(t)
		must(d.Apply(t.Context(), without, metav1.ApplyOptions{FieldManager: "three"}))(t)
		last := must(d.Apply(t.Context(), wanted(2), metav1.ApplyOptions{FieldManager: "two"}))(t)
		if last.Labels["mine"] != "" || last.Labels["x"] != "y" {
			t.Errorf("labels %v", last.Labels)
		}
		taken := must(appsapply.ExtractDeployment(last, "three"))(t)
		if taken.Labels["x"] != "y" || taken.Spec != nil {
			t.Errorf("what three owns: %+v", taken)
		}
		status := appsapply.Deployment("d", ns).WithStatus(appsapply.DeploymentStatus().WithReplicas(5))
		if got := must(d.ApplyStatus(t.Context(), status, metav1.ApplyOptions{FieldManager: "kubelet"}))(t); got.Status.Replicas != 5 {
			t.Errorf("status %+v", got.Status)
		}
	})
}

func TestDryRunsLeaveNothing(t *testing.T) {
	eachWire(t, func(t *testing.T, k *kubernetes.Clientset, ns string) {
		maps, dry := k.CoreV1().ConfigMaps(ns), []string{metav1.DryRunAll}
		made := must(maps.Create(t.Context(), configMap("a", nil), metav1.CreateOptions{DryRun: dry}))(t)
		if made.UID == "" || made.ResourceVersion != "" {
			t.Errorf("a dry create: uid %q, version %q", made.UID, made.ResourceVersion)
		}
		if _, err := maps.Get(t.Context(), "a", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Error(err)
		}
		real := must(maps.Create(t.Context(), configMap("a", nil), metav1.CreateOptions{}))(t)
		if _, err := maps.Create(t.Context(), configMap("a", nil), metav1.CreateOptions{DryRun: dry}); !apierrors.IsAlreadyExists(err) {
			t.Errorf("a dry create of what exists: %v", err)
		}
		copied := real.DeepCopy() // as clients read an object to create a similar one
		copied.Name = "b"
		if _, err := maps.Create(t.Context(), copied, metav1.CreateOptions{DryRun: dry}); err != nil {
			t.Errorf("a dry create of a copy: %v", err)
		}
		if _, err := maps.Create(t.Context(), copied, metav1.CreateOptions{}); !apierrors.IsBadRequest(err) {
			t.Errorf("a create of a copy: %v", err)
		}
		copied.Data = map[string]string{"/": ""}
		if _, err := maps.Create(t.Context(), copied, metav1.CreateOptions{}); !apierrors.IsInvalid(err) {
			t.Errorf("a create of a copy that is not valid: %v", err)
		}
		change := real.DeepCopy()
		change.Data["k"] = "dry"
		if got := must(maps.Update(t.Context(), change, metav1.UpdateOptions{DryRun: dry}))(t); got.Data["k"] != "dry" {
			t.Errorf("a dry update answers %v", got.Data)
		}
		must(maps.Patch(t.Context(), "a", types.MergePatchType, []byte(`{"data":{"k":"dry"}}`), metav1.PatchOptions{DryRun: dry}))(t)
		must(maps.Apply(t.Context(), coreapply.ConfigMap("a", ns).WithData(map[string]string{"n": "dry"}), metav1.ApplyOptions{FieldManager: "m", DryRun: dry}))(t)
		if err := maps.Delete(t.Context(), "a", metav1.DeleteOptions{DryRun: dry}); err != nil {
			t.Error(err)
		}
		if err := maps.DeleteCollection(t.Context(), metav1.DeleteOptions{DryRun: dry}, metav1.ListOptions{}); err != nil {
			t.Error(err)
		}
		if got := must(maps.Get(t.Context(), "a", metav1.GetOptions{}))(t); got.ResourceVersion != real.ResourceVersion || got.Data["k"] != "v" {
			t.Errorf("something happened: %+v", got)
		}
	})
}

func TestDeletingHeedsGraceFinalizersAndPropagation(t *testing.T) {
	eachWire(t, func(t *testing.T, k *kubernetes.Clientset, ns string) {
		pods := k.CoreV1().Pods(ns)
		bound := pod("bound")
		bound.Spec.NodeName = "somewhere"
		must(pods.Create(t.Context(), bound, metav1.CreateOptions{}))(t)
		if err := pods.Delete(t.Context(), "bound", metav1.DeleteOptions{GracePeriodSeconds: ptr.To(int64(20))}); err != nil {
			t.Fatal(err)
		}
		going := must(pods.Get(t.Context(), "bound", metav1.GetOptions{}))(t)
		if going.DeletionTimestamp == nil || *going.DeletionGracePeriodSeconds != 20 {
			t.Errorf("going: %v, %v", going.DeletionTimestamp, going.DeletionGracePeriodSeconds)
		}
		if err := pods.Delete(t.Context(), "bound", metav1.DeleteOptions{GracePeriodSeconds: ptr.To(int64(0))}); err != nil {
			t.Fatal(err)
		}
		if _, err := pods.Get(t.Context(), "bound", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("after a forced delete: %v", err)
		}
		maps := k.CoreV1().ConfigMaps(ns)
		held := configMap("held", nil)
		held.Finalizers = []string{"example.com/hold"}
		must(maps.Create(t.Context(), held, metav1.CreateOptions{}))(t)
		if err := maps.Delete(t.Context(), "held", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		must(maps.Get(t.Context(), "held", metav1.GetOptions{}))(t)
		must(maps.Patch(t.Context(), "held", types.JSONPatchType, []byte(`[{"op":"remove","path":"/metadata/finalizers"}]`), metav1.PatchOptions{}))(t)
		if _, err := maps.Get(t.Context(), "held", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("without finalizers: %v", err)
		}
		for policy, finalizer := range map[metav1.DeletionPropagation]string{metav1.DeletePropagationForeground: "foregroundDeletion", metav1.DeletePropagationOrphan: "orphan"} {
			name := strings.ToLower(string(policy))
			must(k.AppsV1().Deployments(ns).Create(t.Context(), deployment(name), metav1.CreateOptions{}))(t)
			if err := k.AppsV1().Deployments(ns).Delete(t.Context(), name, metav1.DeleteOptions{PropagationPolicy: &policy}); err != nil {
				t.Fatal(err)
			}
			waits := must(k.AppsV1().Deployments(ns).Get(t.Context(), name, metav1.GetOptions{}))(t)
			if len(waits.Finalizers) != 1 || waits.Finalizers[0] != finalizer {
				t.Errorf("%s: %v", policy, waits.Finalizers)
			}
		}
		if err := maps.Delete(t.Context(), "x", metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletionPropagation("Whatever"))}); !apierrors.IsInvalid(err) {
			t.Errorf("an unknown propagation: %v", err)
		}
	})
}

func TestSubresourcesDoTheirOneThing(t *testing.T) {
	eachWire(t, func(t *testing.T, k *kubernetes.Clientset, ns string) {
		pods := k.CoreV1().Pods(ns)
		must(pods.Create(t.Context(), pod("p"), metav1.CreateOptions{}))(t)
		if err := pods.Bind(t.Context(), &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: ns}, Target: corev1.ObjectReference{Kind: "Node", Name: "n"}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := pods.Bind(t.Context(), &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: ns}, Target: corev1.ObjectReference{Kind: "Node", Name: "m"}}, metav1.CreateOptions{}); !apierrors.IsConflict(err) {
			t.Errorf("a second binding: %v", err)
		}
		for action, body := range map[string]runtime.Object{
			"binding": &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: "n"}}, "eviction": &policyv1.Eviction{},
		} {
			err := k.CoreV1().RESTClient().Post().Namespace(ns).Resource("pods").Name("p").SubResource(action).Body(body).Do(t.Context()).Error()
			if !apierrors.IsBadRequest(err) {
				t.Errorf("a body without the name of its pod, %s: %v", action, err)
			}
		}
		p := must(pods.Get(t.Context(), "p", metav1.GetOptions{}))(t)
		p.Status.Phase, p.Labels = corev1.PodRunning, map[string]string{"not": "this-way"}
		p = must(pods.UpdateStatus(t.Context(), p, metav1.UpdateOptions{}))(t)
		if p.Spec.NodeName != "n" || p.Status.Phase != corev1.PodRunning {
			t.Errorf("%s on %s", p.Status.Phase, p.Spec.NodeName)
		}
		p.Status.Phase = corev1.PodFailed
		p.Labels = map[string]string{"yes": "this-way"}
		p = must(pods.Update(t.Context(), p, metav1.UpdateOptions{}))(t)
		if p.Status.Phase != corev1.PodRunning || p.Labels["yes"] == "" {
			t.Errorf("%s, %v", p.Status.Phase, p.Labels)
		}
		p.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debug", Image: "i"}}}
		if got := must(pods.UpdateEphemeralContainers(t.Context(), "p", p, metav1.UpdateOptions{}))(t); len(got.Spec.EphemeralContainers) != 1 {
			t.Errorf("%v", got.Spec.EphemeralContainers)
		}
		if err := pods.EvictV1(t.Context(), &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: ns}}); err != nil {
			t.Errorf("eviction: %v", err)
		}
		if p = must(pods.Get(t.Context(), "p", metav1.GetOptions{}))(t); p.DeletionTimestamp == nil {
			t.Error("an evicted pod stays")
		}
		d := k.AppsV1().Deployments(ns)
		must(d.Create(t.Context(), deployment("d"), metav1.CreateOptions{}))(t)
		scale := must(d.GetScale(t.Context(), "d", metav1.GetOptions{}))(t)
		scale.Spec.Replicas = 4
		scale = must(d.UpdateScale(t.Context(), "d", scale, metav1.UpdateOptions{}))(t)
		if got := must(d.Get(t.Context(), "d", metav1.GetOptions{}))(t); *got.Spec.Replicas != 4 || scale.Status.Selector != "app=d" {
			t.Errorf("%d replicas, selector %q", *got.Spec.Replicas, scale.Status.Selector)
		}
		must(d.Patch(t.Context(), "d", types.MergePatchType, []byte(`{"spec":{"replicas":6}}`), metav1.PatchOptions{}, "scale"))(t)
		if got := must(d.GetScale(t.Context(), "d", metav1.GetOptions{}))(t); got.Spec.Replicas != 6 {
			t.Errorf("%d replicas", got.Spec.Replicas)
		}
	})
}

func TestOneObjectHasSeveralFaces(t *testing.T) {
	eachWire(t, func(t *testing.T, k *kubernetes.Clientset, ns string) {
		must(k.EventsV1().Events(ns).Create(t.Context(), &eventsv1.Event{
			ObjectMeta: metav1.ObjectMeta{Name: "e"}, EventTime: metav1.NowMicro(), ReportingController: "example.com/x", ReportingInstance: "x-1",
			Action: "Doing", Reason: "Done", Type: "Normal", Note: "words", Regarding: corev1.ObjectReference{Kind: "Pod", Namespace: ns, Name: "p"}}, metav1.CreateOptions{}))(t)
		old := must(k.CoreV1().Events(ns).Get(t.Context(), "e", metav1.GetOptions{}))(t)
		if old.Message != "words" || old.InvolvedObject.Name != "p" || old.ReportingController != "example.com/x" {
			t.Errorf("%+v", old)
		}
		must(k.CoreV1().Events(ns).Create(t.Context(), &corev1.Event{ObjectMeta: metav1.ObjectMeta{Name: "f"}, Reason: "Old", Message: "m",
			Source: corev1.EventSource{Component: "c"}, Count: 3, InvolvedObject: corev1.ObjectReference{Namespace: ns, Kind: "Pod", Name: "p"}}, metav1.CreateOptions{}))(t)
		list := must(k.EventsV1().Events(ns).List(t.Context(), metav1.ListOptions{}))(t)
		if len(list.Items) != 2 || list.Items[1].Note != "m" || list.Items[1].DeprecatedCount != 3 || list.Items[1].DeprecatedSource.Component != "c" {
			t.Errorf("%+v", list.Items)
		}
		w := must(k.EventsV1().Events(ns).Watch(t.Context(), metav1.ListOptions{ResourceVersion: "0"}))(t)
		defer w.Stop()
		if e, ok := next(t, w).Object.(*eventsv1.Event); !ok || e.Note == "" {
			t.Errorf("watched %+v", e)
		}

		target := autoscalingv2.CrossVersionObjectReference{Kind: "Deployment", Name: "d", APIVersion: "apps/v1"}
		must(k.AutoscalingV2().HorizontalPodAutoscalers(ns).Create(t.Context(), &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Name: "h"},
			Spec: autoscalingv2.HorizontalPodAutoscalerSpec{ScaleTargetRef: target, MaxReplicas: 5, Metrics: []autoscalingv2.MetricSpec{
				{Type: autoscalingv2.ResourceMetricSourceType, Resource: &autoscalingv2.ResourceMetricSource{Name: "cpu",
					Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: ptr.To(int32(70))}}},
				{Type: autoscalingv2.ResourceMetricSourceType, Resource: &autoscalingv2.ResourceMetricSource{Name: "memory",
					Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: ptr.To(int32(60))}}}}}}, metav1.CreateOptions{}))(t)
		one := must(k.AutoscalingV1().HorizontalPodAutoscalers(ns).Get(t.Context(), "h", metav1.GetOptions{}))(t)
		if one.Spec.TargetCPUUtilizationPercentage == nil || *one.Spec.TargetCPUUtilizationPercentage != 70 {
			t.Errorf("%+v", one.Spec)
		}
		one.Spec.MaxReplicas = 9
		must(k.AutoscalingV1().HorizontalPodAutoscalers(ns).Update(t.Context(), one, metav1.UpdateOptions{}))(t)
		two := must(k.AutoscalingV2().HorizontalPodAutoscalers(ns).Get(t.Context(), "h", metav1.GetOptions{}))(t)
		if two.Spec.MaxReplicas != 9 || len(two.Spec.Metrics) != 2 || len(two.Annotations) != 0 {
			t.Errorf("nothing may be lost on the way through v1: %+v %v", two.Spec, two.Annotations)
		}
		var _ = autoscalingv1.SchemeGroupVersion
	})
}

func TestMetadataClientsSeeMetadata(t *testing.T) {
	c := start(t, millrace.Options{})
	k := clientset(t, c.Config())
	must(k.CoreV1().ConfigMaps("default").Create(t.Context(), configMap("a", map[string]string{"l": "1"}), metav1.CreateOptions{}))(t)
	for name, wire := range wires {
		t.Run(name, func(t *testing.T) {
			config := c.Config()
			wire(config)
			m := must(metadata.NewForConfig(config))(t)
			maps := m.Resource(corev1.SchemeGroupVersion.WithResource("configmaps")).Namespace("default")
			list := must(maps.List(t.Context(), metav1.ListOptions{LabelSelector: "l=1"}))(t)
			if len(list.Items) != 1 || list.Items[0].Labels["l"] != "1" || list.Items[0].Kind != "PartialObjectMetadata" && list.Items[0].Kind != "" {
				t.Errorf("%+v", list.Items)
			}
			got := must(maps.Get(t.Context(), "a", metav1.GetOptions{}))(t)
			if got.UID == "" {
				t.Error("no uid")
			}
			w := must(maps.Watch(t.Context(), metav1.ListOptions{LabelSelector: "l=1"}))(t)
			defer w.Stop()
			if e := next(t, w); e.Object.(*metav1.PartialObjectMetadata).UID != got.UID {
				t.Errorf("%+v", e)
			}
			patched := must(maps.Patch(t.Context(), "a", types.MergePatchType, []byte(`{"metadata":{"annotations":{"w":"`+name+`"}}}`), metav1.PatchOptions{}))(t)
			if patched.Annotations["w"] != name {
				t.Errorf("%v", patched.Annotations)
			}
		})
	}
}

func TestDynamicClientsKeepWhatTheyWereGiven(t *testing.T) {
	c := start(t, millrace.Options{})
	d := must(dynamic.NewForConfig(c.Config()))(t)
	deployments := d.Resource(schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}).Namespace("default")
	content := map[string]any{}
	if err := json.Unmarshal(must(json.Marshal(deployment("d")))(t), &content); err != nil {
		t.Fatal(err)
	}
	u := &unstructured.Unstructured{Object: content}
	u.SetAPIVersion("apps/v1")
	u.SetKind("Deployment")
	made := must(deployments.Create(t.Context(), u, metav1.CreateOptions{}))(t)
	if made.GetKind() != "Deployment" || made.GetAPIVersion() != "apps/v1" {
		t.Errorf("%s %s", made.GetAPIVersion(), made.GetKind())
	}
	w := must(deployments.Watch(t.Context(), metav1.ListOptions{ResourceVersion: made.GetResourceVersion()}))(t)
	defer w.Stop()
	if err := unstructured.SetNestedField(made.Object, int64(3), "spec", "replicas"); err != nil {
		t.Fatal(err)
	}
	must(deployments.Update(t.Context(), made, metav1.UpdateOptions{}))(t)
	event := next(t, w).Object.(*unstructured.Unstructured)
	if n, _, _ := unstructured.NestedInt64(event.Object, "spec", "replicas"); n != 3 {
		t.Errorf("%d replicas", n)
	}
	applied := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "apps/v1", "kind": "Deployment",
		"metadata": map[string]any{"name": "d"}, "spec": map[string]any{"paused": true}}}
	if got := must(deployments.Apply(t.Context(), "d", applied, metav1.ApplyOptions{FieldManager: "m"}))(t); got.Object["spec"].(map[string]any)["paused"] != true {
		t.Errorf("%v", got.Object["spec"])
	}
	list := must(deployments.List(t.Context(), metav1.ListOptions{}))(t)
	if len(list.Items) != 1 || list.Items[0].GetKind() != "Deployment" {
		t.Errorf("%v", list.Items)
	}
	_, err := d.Resource(schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "nothings"}).List(t.Context(), metav1.ListOptions{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("an unknown resource: %v", err)
	}
}
