package objects

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

func TestHolesAreFilledInJSON(t *testing.T) {
	var p corev1.Pod
	body := PlacedPod().With(Fill{Name: Name('p', 7), Seq: 42, Shard: 3})
	if err := json.Unmarshal(body, &p); err != nil {
		t.Fatal(err)
	}
	if p.Name != "p-0000000007" || p.Annotations["marker"] != "seq=00000042" || p.Spec.NodeName != "s-000003" || p.Labels["shard"] != "s-000003" {
		t.Errorf("%s %v %s", p.Name, p.Annotations, p.Spec.NodeName)
	}
}

func TestHolesAreFilledInProtobuf(t *testing.T) {
	body := PodProto().With(Fill{Name: Name('p', 7), Seq: 42, Shard: 3})
	var u runtime.Unknown
	if err := u.Unmarshal(bytes.TrimPrefix(body, []byte("k8s\x00"))); err != nil {
		t.Fatal(err)
	}
	var p corev1.Pod
	if err := p.Unmarshal(u.Raw); err != nil {
		t.Fatal(err)
	}
	if p.Name != "p-0000000007" || p.Annotations["marker"] != "seq=00000042" || u.Kind != "Pod" {
		t.Errorf("%s %s %v", u.Kind, p.Name, p.Annotations)
	}
}

func TestAnswerBecomesTheNextRequest(t *testing.T) {
	next, err := Answered([]byte(`{"metadata":{"resourceVersion":"9","annotations":{"marker":"seq=00000001"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	if got := string(next.With(Fill{Seq: 2, Version: "1234"})); got != `{"metadata":{"resourceVersion":"1234","annotations":{"marker":"seq=00000002"}}}` {
		t.Error(got)
	}
	again := []byte(`{"marker":"seq=00000001"}`)
	if err := Remark(again, 77); err != nil || string(again) != `{"marker":"seq=00000077"}` {
		t.Errorf("%s, %v", again, err)
	}
	for _, bad := range []string{``, `{"metadata":{"resourceVersion":"9"}}`, `{"marker":"seq=00000001"}`} {
		if _, err := Answered([]byte(bad)); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

func TestTextsHaveTheLengthThatIsAskedFor(t *testing.T) {
	for _, n := range []int{0, 1, 20, 200, 6 << 10} {
		if got := len(words(n, 3)); got != n {
			t.Errorf("%d instead of %d", got, n)
		}
	}
	if n := len(Pod().With(Fill{Name: Name('p', 0)})); n < 2<<10 || n > 8<<10 {
		t.Errorf("a pod takes %d bytes", n)
	}
	if strings.Contains(string(ServedConfigMap(10).With(Fill{Name: Name('c', 1), Version: "1"})), "HOLE") {
		t.Error("a hole is left")
	}
}

func TestDefinitionsAndTheirThingsHaveAboutTheSizeThatIsAskedFor(t *testing.T) {
	d := Definition(12, 40<<10)
	if len(d) < 36<<10 || len(d) > 44<<10 || !json.Valid(d) || !strings.Contains(string(d), Group(12)) || Group(12) != Group(19) || Group(12) == Group(20) {
		t.Errorf("a definition of %d bytes in %s", len(d), Group(12))
	}
	thing := Thing(12, 700).With(Fill{Name: Name('t', 1), Seq: 1})
	if len(thing) < 900 || len(thing) > 1100 || !json.Valid(thing) || !json.Valid(ThingPatch().With(Fill{Seq: 1})) {
		t.Errorf("a thing of %d bytes: %s", len(thing), thing)
	}
}
