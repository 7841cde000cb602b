package wire

import (
	"bytes"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/internal/protobuf"
	"github.com/millrace/millrace/internal/server/store"
)

func TestAMessageHasTheResourceVersionOfItsObject(t *testing.T) {
	for _, c := range []struct {
		stored string
		rev    store.Revision
	}{{"", 7}, {"3", 7}, {"3", 0}, {"12345", 123456789}} {
		o := &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: "c", ResourceVersion: c.stored, Labels: map[string]string{"a": "b"}},
			Data:       map[string]string{"k": "v"},
		}
		b, err := o.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		m, err := splice(b, version(c.rev))
		if err != nil {
			t.Fatal(err)
		}
		got := m.Append([]byte("before"))[len("before"):]
		o.ResourceVersion = version(c.rev)
		if want, err := o.Marshal(); err != nil || !bytes.Equal(got, want) || m.Size() != len(want) {
			t.Errorf("%+v: %q of %d bytes, want %q, %v", c, got, m.Size(), want, err)
		}
		whole := Whole(b)
		if got := whole.Append(nil); !bytes.Equal(got, b) || whole.Size() != len(b) {
			t.Errorf("%+v: as a whole %q", c, got)
		}
	}
	if _, err := anyMessage(t.Context(), kindNamed(t, "Pod"), append([]byte(protobuf.Magic), 0xff), 1); err == nil {
		t.Error("bytes that are no message are not refused")
	}
}
