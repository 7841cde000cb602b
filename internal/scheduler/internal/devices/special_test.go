package devices_test

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/internal/scheduler/internal/devices"
)

// A promise counts from the decision until the API shows the claim, whatever comes in between.
func TestAPromisedDeviceIsTaken(t *testing.T) {
	for name, test := range map[string]struct {
		do   func(*devices.State)
		want int
	}{
		"promised":                {func(*devices.State) {}, 1},
		"broken":                  {func(p *devices.State) { p.BreakPromise("promised") }, 0},
		"created":                 {func(p *devices.State) { p.SetClaim(key, claim("1", false)) }, 1},
		"shown before the answer": {func(p *devices.State) { p.SetClaim(key, claim("3", true)) }, 1},
		"written":                 {func(p *devices.State) { p.KeepPromise("promised", claim("3", true)) }, 1},
		"written and broken":      {func(p *devices.State) { p.KeepPromise("promised", claim("3", true)); p.BreakPromise("promised") }, 1},
		"written and restored":    {func(p *devices.State) { p.KeepPromise("promised", claim("3", true)); p.Restore(key) }, 0},
		"written, never shown":    {func(p *devices.State) { p.KeepPromise("promised", claim("3", true)); p.GiveUp(key) }, 0},
		"written and shown": {func(p *devices.State) {
			p.KeepPromise("promised", claim("3", true))
			p.SetClaim(key, claim("3", true))
			p.GiveUp(key)
		}, 1},
		"shown before, and written": {func(p *devices.State) { p.SetClaim(key, claim("3", true)); p.KeepPromise("promised", claim("3", true)) }, 1},
		"written, shown and deleted": {func(p *devices.State) {
			p.KeepPromise("promised", claim("3", true))
			p.SetClaim(key, claim("3", true))
			p.SetClaim(key, nil)
		}, 0},
	} {
		p := &devices.State{}
		promised := claim("", true)
		promised.Name, promised.UID = "", "promised"
		p.Promise(promised)
		test.do(p)
		if got := p.Taken().AllocatedDevices.Len(); got != test.want {
			t.Errorf("%s: %d devices are taken, want %d", name, got, test.want)
		}
	}
}

func TestTheClaimForAPodIsFound(t *testing.T) {
	p := &devices.State{}
	c := claim("1", true)
	c.Annotations = map[string]string{resourcev1.ExtendedResourceClaimAnnotation: "true"}
	c.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "pod", UID: "pod", Controller: new(true)}}
	p.SetClaim(key, c)
	p.SetClaim(key, c)
	if got, ok := p.Special("pod"); !ok || got != c {
		t.Errorf("it is %v", got)
	}
	p.SetClaim(key, nil)
	if got, ok := p.Special("pod"); ok {
		t.Errorf("it is still %v", got)
	}
}

// class returns a class that was created some minutes ago.
func class(name, resource string, minutes int) *resourcev1.DeviceClass {
	c := &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{
		Name: name, CreationTimestamp: metav1.NewTime(time.Unix(1e9, 0).Add(-time.Duration(minutes) * time.Minute)),
	}}
	if resource != "" {
		c.Spec.ExtendedResourceName = &resource
	}
	return c
}

func TestTheNewestClassStandsForAResource(t *testing.T) {
	p := &devices.State{}
	for _, step := range []struct {
		name    string
		class   *resourcev1.DeviceClass
		changed string
		is      string
	}{
		{"a", class("a", "x/y", 3), "[deviceclass.resource.kubernetes.io/a x/y]", "a"},
		{"b", class("b", "x/y", 4), "[deviceclass.resource.kubernetes.io/b]", "a"},
		{"c", class("c", "x/y", 3), "[deviceclass.resource.kubernetes.io/c]", "a"},
		{"d", class("d", "x/y", 1), "[deviceclass.resource.kubernetes.io/d x/y]", "d"},
		{"d", class("d", "x/z", 1), "[x/y x/z]", "a"},
		{"a", nil, "[deviceclass.resource.kubernetes.io/a x/y]", "c"},
		{"c", class("c", "", 3), "[x/y]", "b"},
		{"b", class("b", "x/y", 4), "[]", "b"},
		{"b", nil, "[deviceclass.resource.kubernetes.io/b x/y]", ""},
	} {
		if got := fmt.Sprint(p.SetClass(step.name, step.class)); got != step.changed {
			t.Errorf("%s: changed are %s, want %s", step.name, got, step.changed)
		}
		got := ""
		if c := p.ClassOf("x/y"); c != nil {
			got = c.Name
		}
		if got != step.is {
			t.Errorf("%s: the class is %q, want %q", step.name, got, step.is)
		}
	}
	if p.ClassOf("deviceclass.resource.kubernetes.io/d") == nil || p.ClassOf("deviceclass.resource.kubernetes.io/a") != nil {
		t.Error("implicit names do not follow the classes")
	}
}

func TestDevicesOfAClassAreCounted(t *testing.T) {
	p := &devices.State{}
	slice := func(name string, change func(*resourcev1.ResourceSliceSpec), devices ...string) {
		s := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: resourcev1.ResourceSliceSpec{Driver: "gpu.example.com", Pool: resourcev1.ResourcePool{Name: name}}}
		for _, d := range devices {
			s.Spec.Devices = append(s.Spec.Devices, resourcev1.Device{Name: d, Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{"kind": {StringValue: &d}}})
		}
		change(&s.Spec)
		p.SetSlice(name, s)
	}
	zone := &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
		{Key: "zone", Operator: corev1.NodeSelectorOpIn, Values: []string{"a"}}}}}}
	slice("node", func(s *resourcev1.ResourceSliceSpec) { s.NodeName = new("node") }, "gpu-0", "gpu-1", "nic")
	slice("other", func(s *resourcev1.ResourceSliceSpec) { s.NodeName = new("other") }, "gpu-0")
	slice("all", func(s *resourcev1.ResourceSliceSpec) { s.AllNodes = new(true) }, "far")
	slice("zone", func(s *resourcev1.ResourceSliceSpec) { s.NodeSelector = zone }, "near")
	slice("mixed", func(s *resourcev1.ResourceSliceSpec) {
		s.PerDeviceNodeSelection = new(true)
		s.Devices[0].NodeName, s.Devices[1].AllNodes, s.Devices[2].NodeSelector = new("other"), new(true), zone
	}, "one", "every", "zonal")
	p.SetClaim(key, claim("1", true))
	selecting := func(expression string) *resourcev1.DeviceClass {
		c := class("c", "", 0)
		if expression != "" {
			c.Spec.Selectors = []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: expression}}}
		}
		return c
	}
	for _, c := range []struct {
		class     *resourcev1.DeviceClass
		zone      string
		all, used int64
	}{
		{selecting(""), "a", 7, 1},
		{selecting(""), "b", 5, 1},
		{selecting(`device.attributes["gpu.example.com"].kind.startsWith("gpu")`), "a", 2, 1},
		{selecting(`device.attributes["gpu.example.com"].nothing == "x"`), "a", 0, 0},
		{selecting(`no expression`), "a", 0, 0},
	} {
		for range 2 { // the second time from what is kept
			if all, used := p.Totals(c.class, "node", map[string]string{"zone": c.zone}); all != c.all || used != c.used {
				t.Errorf("%v in zone %s: %d of %d, want %d of %d", c.class.Spec.Selectors, c.zone, used, all, c.used, c.all)
			}
		}
	}
	every := selecting("")
	p.Totals(every, "node", nil)
	slice("node", func(s *resourcev1.ResourceSliceSpec) { s.NodeName = new("node") }, "gpu-0")
	if all, used := p.Totals(every, "node", nil); all != 3 || used != 1 {
		t.Errorf("with another slice there are %d, %d of them used", all, used)
	}
}
