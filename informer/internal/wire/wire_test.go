package wire

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/protobuf"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
)

func fullPod(name string) *corev1.Pod {
	yes := true
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name, Labels: map[string]string{"app": name}, Annotations: map[string]string{"note": "x"},
			OwnerReferences: []metav1.OwnerReference{{UID: "owner-1", Controller: &yes}, {UID: "owner-2"}},
			ManagedFields:   []metav1.ManagedFieldsEntry{{Manager: "kubelet", FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:labels":{".":{},"f:app":{}}}}`)}}},
		Spec: corev1.PodSpec{NodeName: "node-" + name, Containers: []corev1.Container{{Name: "c", Image: "image"}}},
	}
}

func encodeFor(proto bool, kind string, object any) []byte {
	if proto {
		raw, _ := object.(message).Marshal()
		unknown := apiruntime.Unknown{TypeMeta: apiruntime.TypeMeta{APIVersion: "v1", Kind: kind}, Raw: raw}
		content, _ := unknown.Marshal()
		return append([]byte(protobuf.Magic), content...)
	}
	content, _ := json.Marshal(object)
	return append([]byte(fmt.Sprintf(`{"kind":%q,"apiVersion":"v1",`, kind)), content[1:]...)
}

func TestMetadataIsTheFirstFieldOfEveryKindThatSpeaksProtobuf(t *testing.T) {
	checked := 0
	for kind, object := range scheme.Scheme.AllKnownTypes() {
		field, ok := object.FieldByName("ObjectMeta")
		if !ok || field.Type != reflect.TypeFor[metav1.ObjectMeta]() {
			continue
		}
		if tag := field.Tag.Get("protobuf"); tag != "" {
			checked++
			if !strings.HasPrefix(tag, "bytes,1,") {
				t.Errorf("%v has its metadata at %q", kind, tag)
			}
		}
	}
	if checked < 50 {
		t.Errorf("only %d kinds were checked", checked)
	}
}

func TestOnlyManagedFieldsAreLostWhenTheyAreDropped(t *testing.T) {
	pod := fullPod("one")
	before, _ := pod.Marshal()
	reader := &objectReader{dropManagedFields: true}
	e, err := reader.read(before)
	if err != nil || cap(e.Bytes) != len(e.Bytes) {
		t.Fatalf("%v; %d bytes in %d", err, len(e.Bytes), cap(e.Bytes))
	}
	got, err := Decode[*corev1.Pod](e.Bytes)
	pod.ManagedFields = nil
	if err != nil || !reflect.DeepEqual(got, pod) {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestAVersionIsDecodedWithTheHelpOfAnother(t *testing.T) {
	d := NewDecoder[*corev1.Pod]()
	old, new := fullPod("one"), fullPod("one")
	new.ResourceVersion, new.Status.Phase = "7", "Running"
	before, _ := old.Marshal()
	after, _ := new.Marshal()
	got, err := d.DecodeLike(after, before, old)
	if err != nil || !reflect.DeepEqual(got, new) {
		t.Errorf("got %v, %v", got, err)
	}
	if &got.Spec.Containers[0] != &old.Spec.Containers[0] {
		t.Error("the spec, which has not changed, was decoded again")
	}
	new.Spec.NodeName = "moved"
	after, _ = new.Marshal()
	if got, err := d.DecodeLike(after, before, old); err != nil || !reflect.DeepEqual(got, new) {
		t.Errorf("after a change of the spec: %v, %v", got, err)
	}
}

// FuzzWire tests the readers of bytes from outside. They must neither panic nor allocate without bound.
func FuzzWire(f *testing.F) {
	pod, _ := fullPod("one").Marshal()
	event := metav1.WatchEvent{Type: "ADDED", Object: apiruntime.RawExtension{Raw: encodeFor(true, "Pod", fullPod("one"))}}
	frame, _ := event.Marshal()
	f.Add(pod)
	f.Add(frame)
	f.Add(encodeFor(true, "PodList", &corev1.PodList{Items: []corev1.Pod{*fullPod("one")}}))
	f.Fuzz(func(t *testing.T, content []byte) {
		reader := &objectReader{dropManagedFields: true}
		if e, err := reader.read(content); err == nil {
			_, _ = Decode[*corev1.Pod](e.Bytes)
		}
		_, _ = reader.readBookmark(content)
		d := frameDecoder{frame: content, reader: reader}
		_, _ = d.open()
		l := listReader{input: bufio.NewReader(bytes.NewReader(content)), reader: reader}
		_ = l.read()
		Strings(content, []int{1, 13, 4}) // metadata.ownerReferences.uid
		Labels(content)
	})
}
