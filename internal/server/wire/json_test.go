package wire

import (
	"bytes"
	"encoding/json"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/internal/protobuf"
	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/resource/builtin"
	"github.com/millrace/millrace/internal/server/store"
	"github.com/millrace/millrace/internal/server/watchcache"
)

// longWay makes the JSON form by decoding and encoding.
func longWay(t *testing.T, k *resource.Kind, stored []byte, version string) []byte {
	t.Helper()
	o, err := k.Decode(t.Context(), stored, version)
	if err != nil {
		t.Fatal(err)
	}
	form, err := BodyJSON(o)
	if err != nil {
		t.Fatal(err)
	}
	return form
}

func TestFormsEqualThoseOfTheDecodedObject(t *testing.T) {
	for _, k := range builtin.Kinds() {
		o := k.New()
		o.SetName("n")
		stored, err := k.Encode(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		got, err := makeJSON(t.Context(), k, stored, 7)
		want := longWay(t, k, stored, "7")
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %v, %s, want %s", k.Kind, err, got, want)
		}
		o.SetResourceVersion("7")
		whole, err := AppendStored(AppendTypeMeta(nil, k.Kind, "v"), k, store.Entry{Value: stored, Revision: 7}, o)
		if want := append(AppendTypeMeta(nil, k.Kind, "v"), want...); err != nil || !bytes.Equal(whole, want) && isWhole(k, stored) {
			t.Errorf("%s: %v, %s, want %s", k.Kind, err, whole, want)
		}
	}
}

func TestUnstoredObjectsHaveNoResourceVersion(t *testing.T) {
	k := kindNamed(t, "ConfigMap")
	o := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c"}}
	stored, err := k.Encode(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	got, err := AppendStored(AppendTypeMeta(nil, "A", "b"), k, store.Entry{Value: stored}, o)
	got = bytes.TrimPrefix(got, AppendTypeMeta(nil, "A", "b"))
	if want := `"metadata":{"name":"c"}}`; err != nil || string(got) != want {
		t.Errorf("%v, %s, want %s", err, got, want)
	}
}

func TestClaimTemplatesContainTheirKind(t *testing.T) {
	k := kindNamed(t, "StatefulSet")
	stored, err := k.Encode(t.Context(), &appsv1.StatefulSet{Spec: appsv1.StatefulSetSpec{VolumeClaimTemplates: []corev1.PersistentVolumeClaim{{}}}})
	if err != nil {
		t.Fatal(err)
	}
	got, err := makeJSON(t.Context(), k, stored, 7)
	if err != nil || !bytes.Contains(got, []byte(`"volumeClaimTemplates":[{"kind":"PersistentVolumeClaim","apiVersion":"v1",`)) {
		t.Errorf("%v, %s", err, got)
	}
}

func TestFieldsOfANewerVersionDoNotStopAnObject(t *testing.T) {
	k := kindNamed(t, "Lease")
	stored, err := protobuf.Marshal("coordination.k8s.io/v1", "Lease", newer{leaseOf()})
	if err != nil {
		t.Fatal(err)
	}
	got, err := makeJSON(t.Context(), k, stored, 7)
	if want := longWay(t, k, stored, "7"); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%v, %s, want %s", err, got, want)
	}
}

// newer is a message with a field that its type does not have.
type newer struct{ protobuf.Message }

const newField = "\x7a\x01x"

func (n newer) Size() int { return n.Message.Size() + len(newField) }

func (n newer) MarshalToSizedBuffer(b []byte) (int, error) {
	end := len(b) - copy(b[len(b)-len(newField):], newField)
	size, err := n.Message.MarshalToSizedBuffer(b[:end])
	return size + len(newField), err
}

func TestBytesThatAreNotAnObjectAreAnError(t *testing.T) {
	k := kindNamed(t, "Pod")
	for _, stored := range []string{"", "k8s\x00", "k8s\x00\x12\x7f", "k8s\x00\x12\x02\x0a\x7f", "{}"} {
		got, err := makeJSON(t.Context(), k, []byte(stored), 7)
		if o, decodeErr := k.Decode(t.Context(), []byte(stored), "7"); (err == nil) != (decodeErr == nil) {
			t.Errorf("%q gave %s, %v; decoded it is %v, %v", stored, got, err, o, decodeErr)
		}
	}
}

func TestMetadataFormsContainOnlyMetadata(t *testing.T) {
	for _, custom := range []bool{false, true} {
		pod := podOf6KB()
		pod.ResourceVersion = "9"
		want, err := BodyJSON(&metav1.PartialObjectMetadata{ObjectMeta: pod.ObjectMeta})
		if err != nil {
			t.Fatal(err)
		}
		stored, err := kindNamed(t, "Pod").Encode(t.Context(), pod)
		if custom { // kept as JSON
			stored, err = json.Marshal(pod)
		}
		if err != nil {
			t.Fatal(err)
		}
		o, _ := watchcache.NewObject(watchcache.KindOptions{Prefix: "/p/"}, store.Entry{Key: "/p/n", Value: stored, Revision: 9})
		for name, form := range map[string]func() ([]byte, error){
			"kept":        func() ([]byte, error) { return MetadataJSON(o) },
			"at":          func() ([]byte, error) { return MetadataJSONAt(o, 9) },
			"of a delete": func() ([]byte, error) { return DeletedMetadataJSON(&watchcache.Event{Object: o, Revision: 9}) },
		} {
			if got, err := form(); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s: %v, %s, want %s", name, err, got, want)
			}
		}
		message, err := MetadataProto(o, 9)
		if err != nil {
			t.Fatal(err)
		}
		var p metav1.PartialObjectMetadata
		if err := p.Unmarshal(message.Append(nil)); err != nil {
			t.Fatal(err)
		}
		if got, err := BodyJSON(&p); err != nil || !bytes.Equal(got, want) {
			t.Errorf("by way of protobuf: %v, %s, want %s", err, got, want)
		}
	}
}

// isWhole reports whether the stored message is all of the object's JSON.
func isWhole(k *resource.Kind, stored []byte) bool {
	_, whole, _ := k.Message(stored)
	return whole
}
