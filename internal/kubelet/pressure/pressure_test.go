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
	w := Watch{Limits: Limits{Hard: all}}
	now := time.Unix(0, 0)
	_, short := w.Check(map[Signal]Level{Memory: {1<<30 - 1, 8 << 30}, Disk: {99, 1000}, PIDs: {0, 10}, ImageDisk: {0, 10}}, now)
	if len(short) != 2 || short[0].Signal != Memory || short[1].Signal != Disk || short[1].Least != 100 {
		t.Errorf("short are %+v", short)
	}
	if short, _ = w.Check(map[Signal]Level{Memory: {1 << 30, 8 << 30}, Disk: {100, 1000}}, now); len(short) > 0 {
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
	got := u.Message(Shortage{Signal: Memory, Least: 100 << 20, Available: 50 << 20})
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

func TestASoftThresholdMustBeCrossedForItsGracePeriod(t *testing.T) {
	w := Watch{Limits: Limits{
		Hard: Thresholds{Memory: {Quantity: resource.MustParse("10")}}, Soft: Thresholds{Memory: {Quantity: resource.MustParse("50")}, Disk: {Part: 0.5}},
		Reclaim: Thresholds{Memory: {Quantity: resource.MustParse("20")}},
	}}
	if err := w.SetGrace(map[string]string{"memory.available": "1m"}); err == nil || err.Error() != "grace period must be specified for the soft eviction threshold nodefs.available" {
		t.Errorf("it says %v", err)
	}
	if err := w.SetGrace(map[string]string{"memory.available": "1m", "nodefs.available": "-1s"}); err == nil || !strings.Contains(err.Error(), "must be a positive value") {
		t.Errorf("it says %v", err)
	}
	if err := w.SetGrace(map[string]string{"memory.available": "1m", "nodefs.available": "0s"}); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		second, memory, disk uint64
		all, due             string
	}{
		{0, 49, 99, "memory.available soft", ""},
		{59, 49, 99, "memory.available soft", ""},
		{60, 51, 99, "", ""}, // for a moment there is enough
		{61, 49, 99, "memory.available soft", ""},
		{120, 49, 49, "memory.available soft, nodefs.available soft", "nodefs.available soft"},
		{121, 49, 99, "memory.available soft", "memory.available soft"},
		{122, 69, 99, "memory.available soft", "memory.available soft"}, // less than the threshold and what is to be reclaimed
		{123, 70, 99, "", ""},
		{124, 9, 99, "memory.available, memory.available soft", "memory.available"},
		{125, 29, 99, "memory.available, memory.available soft", "memory.available"},
		{126, 30, 99, "memory.available soft", ""},
	} {
		said := func(some []Shortage) string {
			var words []string
			for _, s := range some {
				word := string(s.Signal)
				if s.Soft {
					word += " soft"
				}
				words = append(words, word)
			}
			return strings.Join(words, ", ")
		}
		all, due := w.Check(map[Signal]Level{Memory: {step.memory, 100}, Disk: {step.disk, 100}}, time.Unix(int64(step.second), 0))
		if said(all) != step.all || said(due) != step.due {
			t.Errorf("after %d s it is short of %q, and acts on %q", step.second, said(all), said(due))
		}
	}
}
