package state

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/millrace/millrace/internal/randomly"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func podNamed(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name}}
}

func encodedPod(name string) *Version[*corev1.Pod] {
	packed, _ := podNamed(name).Marshal()
	return &Version[*corev1.Pod]{Key: Key{Namespace: "a", Name: name}, Packed: packed}
}

// hotPods returns a set with room for three pods, and pods of equal size.
func hotPods(t *testing.T) (*HotSet[*corev1.Pod], []*Version[*corev1.Pod]) {
	var versions []*Version[*corev1.Pod]
	for i := range 10 {
		versions = append(versions, encodedPod(fmt.Sprint(i)))
	}
	limit := 3*len(versions[0].Packed) + 1
	return NewHotSet[*corev1.Pod](limit, func(key Key, err error) { t.Errorf("%s: %v", key, err) }), versions
}

func held(versions []*Version[*corev1.Pod]) (names string) {
	for _, v := range versions {
		if v.decoded.Load() != nil {
			names += v.Key.Name
		}
	}
	return names
}

func TestAHotSetHoldsWhatWasUsedLastAndNoMore(t *testing.T) {
	hot, versions := hotPods(t)
	hot.Object(versions[0], nil)
	for _, v := range versions[1:] {
		hot.Object(v, nil)
		hot.Object(versions[0], nil) // in use, so it stays
	}
	if names := held(versions); len(names) != 3 || names[0] != '0' {
		t.Errorf("holds %s", names)
	}
	before := held(versions)
	hot.Peek(versions[2])
	if names := held(versions); names != before {
		t.Errorf("holds %s after a look at 2, and %s before", names, before)
	}
}

func TestAHotSetIsBoundedByBytes(t *testing.T) {
	hot, versions := hotPods(t)
	for _, v := range versions {
		hot.Object(v, nil)
	}
	large := podNamed("large")
	large.Annotations = map[string]string{"note": string(make([]byte, len(versions[0].Packed)))}
	packed, _ := large.Marshal()
	big := &Version[*corev1.Pod]{Packed: packed}
	hot.Object(big, nil)
	if names := held(versions); big.decoded.Load() == nil || len(names) != 0 && len(names)*len(versions[0].Packed)+len(packed) > hot.limit {
		t.Errorf("holds %s beside a pod of %d bytes, the limit is %d", names, len(packed), hot.limit)
	}
	huge := podNamed("huge")
	huge.Annotations = map[string]string{"note": string(make([]byte, 10*len(versions[0].Packed)))}
	packed, _ = huge.Marshal()
	tooBig := &Version[*corev1.Pod]{Packed: packed}
	if object, ok := hot.Object(tooBig, nil); !ok || object.Name != "huge" || tooBig.decoded.Load() != nil || big.decoded.Load() == nil {
		t.Error("what does not fit at all was held, or drove others out")
	}
}

func TestAHotSetLetsGoOfSupersededVersions(t *testing.T) {
	hot, versions := hotPods(t)
	hot.Object(versions[0], nil)
	hot.Object(versions[1], nil)
	hot.Supersede(versions[0])
	if names := held(versions); names != "01" {
		t.Errorf("holds %s while handlers are being told", names)
	}
	hot.Sweep(0)
	if names := held(versions); names != "1" {
		t.Errorf("holds %s when they have been", names)
	}
	hot.Object(versions[0], nil) // a handler that is late
	hot.Sweep(0)
	if names := held(versions); names != "1" || hot.bytes != len(versions[1].Packed) {
		t.Errorf("holds %s, %d bytes, after a late handler", names, hot.bytes)
	}
}

func TestAFieldPathFindsTheSameInBothForms(t *testing.T) {
	path, err := ResolvePath(reflect.TypeFor[*corev1.Pod](), "spec.containers.image")
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(randomly.Seed(t), 0))
	for range 100 {
		pod := podNamed(fmt.Sprint(random.IntN(1000)))
		for range random.IntN(4) {
			pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Image: fmt.Sprint(random.IntN(5))})
		}
		packed, _ := pod.Marshal()
		a := valuesAt(path, &Version[*corev1.Pod]{Packed: packed})
		b := valuesAt(path, &Version[*corev1.Pod]{Plain: pod})
		if !reflect.DeepEqual(a, b) {
			t.Errorf("encoded: %q, decoded: %q", a, b)
		}
	}
	for _, wrong := range []string{"spec.nodename", "spec", "metadata.labels.app", ""} {
		if _, err := ResolvePath(reflect.TypeFor[*corev1.Pod](), wrong); err == nil {
			t.Errorf("path %q was accepted", wrong)
		}
	}
}
