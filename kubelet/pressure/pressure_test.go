package pressure

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestThresholdsAreQuantitiesOrPercentages(t *testing.T) {
	all, err := Parse(map[string]string{"memory.available": "1Gi", "nodefs.available": "10%", "pid.available": "0"})
	if err != nil {
		t.Fatal(err)
	}
	short := all.Short(map[Signal]Level{Memory: {1<<30 - 1, 8 << 30}, Disk: {99, 1000}, PIDs: {0, 10}, ImageDisk: {0, 10}})
	if len(short) != 2 || short[0].Signal != Memory || short[1].Signal != Disk || short[1].Least != 100 {
		t.Errorf("short are %+v", short)
	}
	if short = all.Short(map[Signal]Level{Memory: {1 << 30, 8 << 30}, Disk: {100, 1000}}); len(short) > 0 {
		t.Errorf("what is just enough is short: %+v", short)
	}
	for name, text := range map[string]string{"memory.available": "much", "nodefs.available": "101%", "rain": "1"} {
		if _, err := Parse(map[string]string{name: text}); err == nil {
			t.Errorf("%s=%s is taken", name, text)
		}
	}
	if words := Default().Words(); words["memory.available"] != "100Mi" || words["nodefs.available"] != "10%" {
		t.Errorf("the defaults are %v", words)
	}
}

func use(name string, important int32, used, requested int64, static bool) Use {
	return Use{Pod: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{Priority: &important}}, Used: used, Requested: requested, Static: static}
}

func TestTheVictimUsesMoreThanItsRequestAndHasTheLowestPriority(t *testing.T) {
	for _, test := range []struct {
		want string
		all  []Use
	}{
		{"above", []Use{use("below", 0, 10, 20, false), use("above", 100, 11, 10, false)}},
		{"unimportant", []Use{use("important", 100, 90, 0, false), use("unimportant", 0, 10, 0, false)}},
		{"far", []Use{use("near", 0, 11, 10, false), use("far", 0, 50, 10, false)}},
		{"", []Use{use("critical", criticalPriority, 90, 0, true)}},
		{"", nil},
	} {
		got := ""
		if v := Victim(test.all); v != nil {
			got = v.Pod.Name
		}
		if got != test.want {
			t.Errorf("first goes %q, want %q", got, test.want)
		}
	}
}

func TestAnEvictionMessageSaysWhy(t *testing.T) {
	u := use("a", 0, 200<<20, 0, false)
	u.Pod.Spec.Containers = []corev1.Container{
		{Name: "main", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("50Mi")}}}, {Name: "modest"},
	}
	u.Containers = map[string]int64{"main": 200 << 20, "modest": 0}
	got := u.Message(Shortage{Memory, 100 << 20, 50 << 20})
	if want := "The node was low on resource: memory. Threshold quantity: 100Mi, available: 50Mi. Container main was using 200Mi, request is 50Mi, has larger consumption of memory. "; got != want {
		t.Errorf("it hears %q", got)
	}
	if strings.Contains(got, "modest") {
		t.Error("who uses nothing is blamed")
	}
}

func TestAConditionIsHeldForAWhile(t *testing.T) {
	var h Hold
	now := time.Unix(0, 0)
	if !h.Note([]Shortage{{Signal: Memory}}, now, time.Minute) || !h.Conditions()[corev1.NodeMemoryPressure] {
		t.Error("a shortage is not told")
	}
	if h.Note(nil, now.Add(59*time.Second), time.Minute) || !h.Conditions()[corev1.NodeMemoryPressure] {
		t.Error("it ends at once")
	}
	if !h.Note(nil, now.Add(time.Minute), time.Minute) || len(h.Conditions()) > 0 {
		t.Error("it never ends")
	}
}
