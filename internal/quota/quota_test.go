package quota

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

func list(pairs ...string) corev1.ResourceList {
	l := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		l[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return l
}

func text(l corev1.ResourceList) string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(l)) {
		q := l[name]
		all = append(all, fmt.Sprintf("%s=%s", name, q.String()))
	}
	return strings.Join(all, " ")
}

func pod(change func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{
		Requests: list("cpu", "100m", "memory", "1Gi", "example.com/chip", "1"), Limits: list("cpu", "200m", "example.com/chip", "1"),
	}}}}}
	if change != nil {
		change(p)
	}
	return p
}

func TestUseOfEachKind(t *testing.T) {
	core := func(resource string) schema.GroupResource { return schema.GroupResource{Resource: resource} }
	running := "count/pods=1 cpu=100m limits.cpu=200m memory=1Gi pods=1 requests.cpu=100m requests.example.com/chip=1 requests.memory=1Gi"
	for name, c := range map[string]struct {
		resource schema.GroupResource
		object   any
		want     string
	}{
		"a kind of another group": {schema.GroupResource{Group: "apps", Resource: "deployments"}, nil, "count/deployments.apps=1"},
		"a config map":            {core("configmaps"), &corev1.ConfigMap{}, "configmaps=1 count/configmaps=1"},
		"an event":                {core("events"), &corev1.Event{}, "count/events=1"},
		"a pod":                   {core("pods"), pod(nil), running},
		"a pod that is going":     {core("pods"), pod(func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{} }), running},
		"a pod that has ended":    {core("pods"), pod(func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }), "count/pods=1"},
		"a pod that has failed":   {core("pods"), pod(func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }), "count/pods=1"},
		"a pod with an init container that asks for more": {core("pods"), pod(func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: list("cpu", "100m")}
			p.Spec.InitContainers = []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: list("cpu", "2")}}}
		}), "count/pods=1 cpu=2 pods=1 requests.cpu=2"},
		"a service": {core("services"), &corev1.Service{Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP, Ports: make([]corev1.ServicePort, 2)}},
			"count/services=1 services=1 services.loadbalancers=0 services.nodeports=0"},
		"a service with node ports": {core("services"), &corev1.Service{Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Ports: make([]corev1.ServicePort, 2)}},
			"count/services=1 services=1 services.loadbalancers=0 services.nodeports=2"},
		"a load balancer": {core("services"), &corev1.Service{Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: make([]corev1.ServicePort, 2)}},
			"count/services=1 services=1 services.loadbalancers=1 services.nodeports=2"},
		"a load balancer that needs no node ports": {core("services"), &corev1.Service{Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer,
			AllocateLoadBalancerNodePorts: new(false), Ports: []corev1.ServicePort{{NodePort: 30000}, {}}}},
			"count/services=1 services=1 services.loadbalancers=1 services.nodeports=1"},
		"a claim": {core("persistentvolumeclaims"), &corev1.PersistentVolumeClaim{Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: new("gold"),
			Resources: corev1.VolumeResourceRequirements{Requests: list("storage", "5Gi")}}},
			"count/persistentvolumeclaims=1 gold.storageclass.storage.k8s.io/persistentvolumeclaims=1 gold.storageclass.storage.k8s.io/requests.storage=5Gi " +
				"persistentvolumeclaims=1 requests.storage=5Gi"},
	} {
		if got := text(Use(c.resource, c.object)); got != c.want {
			t.Errorf("%s uses\n\t%s, want\n\t%s", name, got, c.want)
		}
	}
}

func TestTheStorageClassOfAClaim(t *testing.T) {
	named := &corev1.PersistentVolumeClaim{Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: new("gold")}}
	old := named.DeepCopy()
	old.Annotations = map[string]string{corev1.BetaStorageClassAnnotation: "silver"}
	for want, c := range map[string]*corev1.PersistentVolumeClaim{"": {}, "gold": named, "silver": old} {
		if got := StorageClass(c); got != want {
			t.Errorf("it is %q, want %q", got, want)
		}
	}
}

func TestScopesCoverPods(t *testing.T) {
	plain := pod(nil)
	bestEffort := pod(func(p *corev1.Pod) { p.Spec.Containers[0].Resources = corev1.ResourceRequirements{} })
	bounded := pod(func(p *corev1.Pod) { p.Spec.ActiveDeadlineSeconds = new(int64(0)) })
	high := pod(func(p *corev1.Pod) { p.Spec.PriorityClassName = "high" })
	far := pod(func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{PodAffinityTerm: corev1.PodAffinityTerm{Namespaces: []string{"other"}}}}}}
	})
	near := pod(func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{}}}}
	})
	for _, c := range []struct {
		scope   corev1.ResourceQuotaScope
		in, out []*corev1.Pod
	}{
		{corev1.ResourceQuotaScopeTerminating, []*corev1.Pod{bounded}, []*corev1.Pod{plain}},
		{corev1.ResourceQuotaScopeNotTerminating, []*corev1.Pod{plain}, []*corev1.Pod{bounded}},
		{corev1.ResourceQuotaScopeBestEffort, []*corev1.Pod{bestEffort}, []*corev1.Pod{plain}},
		{corev1.ResourceQuotaScopeNotBestEffort, []*corev1.Pod{plain}, []*corev1.Pod{bestEffort}},
		{corev1.ResourceQuotaScopePriorityClass, []*corev1.Pod{high}, []*corev1.Pod{plain}},
		{corev1.ResourceQuotaScopeCrossNamespacePodAffinity, []*corev1.Pod{far}, []*corev1.Pod{plain, near}},
		{"Unknown", nil, []*corev1.Pod{plain}},
	} {
		q := &corev1.ResourceQuota{Spec: corev1.ResourceQuotaSpec{Scopes: []corev1.ResourceQuotaScope{c.scope}}}
		for _, p := range c.in {
			if !Covers(q, p) {
				t.Errorf("%s does not cover %v", c.scope, p.Spec)
			}
		}
		for _, p := range c.out {
			if Covers(q, p) {
				t.Errorf("%s covers %v", c.scope, p.Spec)
			}
		}
		if Covers(q, &corev1.Service{}) {
			t.Errorf("%s covers a service", c.scope)
		}
	}
	if !Covers(&corev1.ResourceQuota{}, plain) || !Covers(&corev1.ResourceQuota{}, &corev1.Service{}) {
		t.Error("a quota without scopes does not cover everything")
	}
}

func TestSelectorsOfScopesCompareNames(t *testing.T) {
	of := func(class string) *corev1.Pod { return pod(func(p *corev1.Pod) { p.Spec.PriorityClassName = class }) }
	for _, c := range []struct {
		operator corev1.ScopeSelectorOperator
		covered  string // which of "", "a", "b" it covers
	}{
		{corev1.ScopeSelectorOpExists, "a b"}, {corev1.ScopeSelectorOpDoesNotExist, "-"}, {corev1.ScopeSelectorOpIn, "a"}, {corev1.ScopeSelectorOpNotIn, "- b"}, {"Unknown", ""},
	} {
		q := &corev1.ResourceQuota{Spec: corev1.ResourceQuotaSpec{ScopeSelector: &corev1.ScopeSelector{MatchExpressions: []corev1.ScopedResourceSelectorRequirement{
			{ScopeName: corev1.ResourceQuotaScopePriorityClass, Operator: c.operator, Values: []string{"a"}}}}}}
		var covered []string
		for _, class := range []string{"", "a", "b"} {
			if Covers(q, of(class)) {
				covered = append(covered, cmp.Or(class, "-"))
			}
		}
		if got := strings.Join(covered, " "); got != c.covered {
			t.Errorf("%s covers %q, want %q", c.operator, got, c.covered)
		}
	}
}

func TestScopesOfClaimsAreTheirAttributes(t *testing.T) {
	q := &corev1.ResourceQuota{Spec: corev1.ResourceQuotaSpec{ScopeSelector: &corev1.ScopeSelector{MatchExpressions: []corev1.ScopedResourceSelectorRequirement{
		{ScopeName: corev1.ResourceQuotaScopeVolumeAttributesClass, Operator: corev1.ScopeSelectorOpIn, Values: []string{"fast"}}}}}}
	claim := func(class *string) *corev1.PersistentVolumeClaim {
		return &corev1.PersistentVolumeClaim{Spec: corev1.PersistentVolumeClaimSpec{VolumeAttributesClassName: class}}
	}
	if !Covers(q, claim(new("fast"))) || Covers(q, claim(new("slow"))) || Covers(q, claim(nil)) {
		t.Error("it does not go by the name of the class")
	}
	q.Spec.ScopeSelector.MatchExpressions[0].ScopeName = corev1.ResourceQuotaScopePriorityClass
	if Covers(q, claim(new("fast"))) {
		t.Error("a scope of pods covers a claim")
	}
}

func TestUseOfDevices(t *testing.T) {
	exactly := func(class string, mode resourcev1.DeviceAllocationMode, count int64) resourcev1.DeviceRequest {
		return resourcev1.DeviceRequest{Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: class, AllocationMode: mode, Count: count}}
	}
	any := func(class string, mode resourcev1.DeviceAllocationMode, count int64) resourcev1.DeviceSubRequest {
		return resourcev1.DeviceSubRequest{DeviceClassName: class, AllocationMode: mode, Count: count}
	}
	c := &resourcev1.ResourceClaim{Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{
		exactly("gpu", "ExactCount", 2), exactly("nic", "All", 0), exactly("gpu", "Unknown", 5),
		{FirstAvailable: []resourcev1.DeviceSubRequest{any("gpu", "ExactCount", 1), any("gpu", "ExactCount", 3), any("tpu", "ExactCount", 4)}},
	}}}}
	names := map[string]string{"gpu": "example.com/gpu", "tpu": "example.com/tpu"}
	resourceOf := func(class string) string { return names[class] }
	devices := "count/resourceclaims.resource.k8s.io=1 gpu.deviceclass.resource.k8s.io/devices=5 nic.deviceclass.resource.k8s.io/devices=32 "
	for _, test := range []struct {
		paid corev1.ResourceList
		want string
	}{
		{nil, devices + "requests.deviceclass.resource.kubernetes.io/gpu=5 requests.deviceclass.resource.kubernetes.io/tpu=4 " +
			"requests.example.com/gpu=5 requests.example.com/tpu=4 tpu.deviceclass.resource.k8s.io/devices=4"},
		{list("requests.example.com/gpu", "3", "requests.example.com/tpu", "4"), devices + "requests.deviceclass.resource.kubernetes.io/gpu=5 " +
			"requests.deviceclass.resource.kubernetes.io/tpu=4 requests.example.com/gpu=2 tpu.deviceclass.resource.k8s.io/devices=4"},
	} {
		if got := text(ResourceClaimUse(Devices(c), resourceOf, test.paid)); got != test.want {
			t.Errorf("it uses\n\t%s, want\n\t%s", got, test.want)
		}
	}
}

func TestAPodPaysForOneClaimOnly(t *testing.T) {
	c := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: "c", OwnerReferences: []metav1.OwnerReference{
		{APIVersion: "v1", Kind: "Pod", Name: "p", UID: "1", Controller: new(true)}}}}
	if SpecialOf(c) != nil {
		t.Error("a claim without the annotation is special")
	}
	c.Annotations = map[string]string{resourcev1.ExtendedResourceClaimAnnotation: "true"}
	s := SpecialOf(c)
	if s == nil {
		t.Fatal("the claim is not special")
	}
	named := func(claim string) *corev1.PodExtendedResourceClaimStatus {
		return &corev1.PodExtendedResourceClaimStatus{ResourceClaimName: claim}
	}
	for _, test := range []struct {
		uid         types.UID
		status      *corev1.PodExtendedResourceClaimStatus
		first, want bool
	}{
		{"1", named("c"), false, true}, {"1", named("other"), true, false}, {"1", nil, true, true}, {"1", nil, false, false}, {"2", named("c"), true, false},
	} {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: test.uid}, Status: corev1.PodStatus{ExtendedResourceClaimStatus: test.status}}
		if got := s.PaidBy(p, test.first); got != test.want {
			t.Errorf("%+v: %v", test, got)
		}
	}
	later := *s
	later.Created = metav1.Unix(9, 0)
	other := *s
	other.Name = "d"
	if !s.Before(&later) || later.Before(s) || !s.Before(&other) || other.Before(s) {
		t.Error("the first claim is not found")
	}
}
