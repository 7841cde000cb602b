package wire

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/millrace/millrace/internal/protobuf"
	"github.com/millrace/millrace/internal/randomly"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes/scheme"
)

// replica returns one of the pods of an application.
func replica(app string, n int) *corev1.Pod {
	pod := fullPod(fmt.Sprint(app, "-", n))
	pod.Labels = map[string]string{"app": app, "team": "the team of " + app}
	pod.Spec.Containers = []corev1.Container{
		{Name: "main", Image: "registry.example/" + app + ":v1", Args: []string{"--serve"}},
		{Name: "proxy", Image: "registry.example/proxy:v1"},
	}
	pod.Status = corev1.PodStatus{Phase: "Running", PodIP: fmt.Sprint("10.0.0.", n)}
	return pod
}

func mustEncode(t testing.TB, object message) []byte {
	t.Helper()
	content, err := object.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func TestReplicasShareWhatTheyHaveInCommon(t *testing.T) {
	d := NewDecoder[*corev1.Pod]()
	var got []*corev1.Pod
	for i := range 5 {
		want := replica("web", i)
		pod, err := d.Decode(mustEncode(t, want))
		if err != nil || !reflect.DeepEqual(pod, want) {
			t.Fatalf("decoded %v, %v", pod, err)
		}
		got = append(got, pod)
	}
	if &got[3].Spec.Containers[0] != &got[4].Spec.Containers[0] {
		t.Error("containers were decoded for each replica")
	}
	if cap(got[4].Spec.Containers) != len(got[4].Spec.Containers) {
		t.Error("appending to a shared list writes into it")
	}
	other, err := d.Decode(mustEncode(t, replica("db", 1)))
	if err != nil || !reflect.DeepEqual(other, replica("db", 1)) {
		t.Errorf("another application's pod: %v, %v", other, err)
	}
}

func TestPartsOfTheTopAreSharedToo(t *testing.T) {
	d := NewDecoder[*corev1.ConfigMap]()
	var last *corev1.ConfigMap
	for i := range 4 {
		want := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(i)}, Data: map[string]string{"ca.crt": "the same certificate everywhere"}}
		got, err := d.Decode(mustEncode(t, want))
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("decoded %v, %v", got, err)
		}
		if i == 3 && reflect.ValueOf(got.Data).Pointer() != reflect.ValueOf(last.Data).Pointer() {
			t.Error("the data were decoded again")
		}
		last = got
	}
}

func TestTheMemoryOfPartsIsBounded(t *testing.T) {
	d := NewDecoder[*discoveryv1.EndpointSlice]()
	slice := &discoveryv1.EndpointSlice{}
	for i := range 200 {
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{Hostname: new(string), Addresses: []string{fmt.Sprint("10.0.0.", i)}})
	}
	for i := range 3000 {
		*slice.Endpoints[0].Hostname = fmt.Sprint("host-", i)
		content := mustEncode(t, slice)
		for range 2 { // twice, so that it is kept
			if _, err := d.Decode(content); err != nil {
				t.Fatal(err)
			}
		}
		kept := 0
		for _, p := range d.parts.recent {
			kept += len(p.encoded)
		}
		for _, p := range d.parts.older {
			kept += len(p.encoded)
		}
		if kept > 2*maxRecent {
			t.Fatalf("%d bytes are kept", kept)
		}
	}
}

// shuffled returns a message of random fields of other messages, some of them in pieces, repeated or out of order.
func shuffled(random *rand.Rand, messages ...[]byte) []byte {
	var fields [][]byte
	for _, message := range messages {
		for s := protobuf.Scan(message); s.Next(); {
			if s.Number <= 3 && random.IntN(2) == 0 { // metadata, spec, status
				fields = append(fields, protobuf.AppendBytes(nil, s.Number, shuffled(random, s.Bytes)))
			} else if random.IntN(8) != 0 {
				fields = append(fields, s.Whole)
			}
		}
	}
	if random.IntN(3) == 0 {
		random.Shuffle(len(fields), func(i, j int) { fields[i], fields[j] = fields[j], fields[i] })
	}
	return bytes.Join(fields, nil)
}

// Sharing parts must not change the result: whatever the order and number of the fields, the object is equal to what
// the generated code decodes.
func TestSharingPartsDoesNotShow(t *testing.T) {
	seed := randomly.Seed(t)
	random := rand.New(rand.NewPCG(seed, 0))
	pods := [][]byte{mustEncode(t, replica("web", 1)), mustEncode(t, replica("web", 2)), mustEncode(t, replica("db", 1)), mustEncode(t, fullPod("one"))}
	d := NewDecoder[*corev1.Pod]()
	var before []byte
	var like *corev1.Pod
	for i := range 5000 {
		content := shuffled(random, pods[random.IntN(4)])
		if random.IntN(4) == 0 {
			content = shuffled(random, content, pods[random.IntN(4)])
		}
		want, wrong := Decode[*corev1.Pod](content)
		got, err := d.Decode(content)
		if like != nil && i%2 == 0 {
			got, err = d.DecodeLike(content, before, like)
		}
		if (err == nil) != (wrong == nil) || err == nil && !reflect.DeepEqual(got, want) {
			t.Fatalf("seed %d: decoded %v, %v; want %v, %v", seed, got, err, want, wrong)
		}
		if err == nil && random.IntN(3) == 0 {
			before, like = content, want
		}
	}
}

// fill sets every field that it can.
func fill(random *rand.Rand, v reflect.Value, depth int) {
	switch v.Interface().(type) {
	case metav1.Time:
		v.Set(reflect.ValueOf(metav1.Unix(random.Int64N(1e9), 0)))
		return
	case metav1.MicroTime, resource.Quantity, intstr.IntOrString, apiruntime.RawExtension, metav1.FieldsV1:
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(fmt.Sprint("a text that is not short, number ", random.IntN(3)))
	case reflect.Bool:
		v.SetBool(random.IntN(2) == 0)
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(random.Int64N(100))
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() && (depth < 2 || random.IntN(4) == 0) {
				fill(random, v.Field(i), depth+1)
			}
		}
	case reflect.Pointer:
		if depth < 4 {
			v.Set(reflect.New(v.Type().Elem()))
			fill(random, v.Elem(), depth+1)
		}
	case reflect.Slice:
		if depth < 4 {
			v.Set(reflect.MakeSlice(v.Type(), 2, 2))
			fill(random, v.Index(0), depth+1)
		}
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(random, key, depth+1)
		fill(random, value, depth+1)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	}
}

func TestSharingShowsInNoKind(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	kinds := 0
	for _, kind := range scheme.Scheme.AllKnownTypes() {
		if _, ok := reflect.New(kind).Interface().(message); !ok || shapeOf(kind, true) == nil {
			continue
		}
		kinds++
		var parts partCache
		for range 2 {
			object := reflect.New(kind)
			fill(random, object.Elem(), 0)
			content := mustEncode(t, object.Interface().(message))
			want, got := reflect.New(kind), reflect.New(kind)
			if err := want.Interface().(message).Unmarshal(content); err != nil {
				t.Fatalf("%v: %v", kind, err)
			}
			if !parts.fill(shapeOf(kind, true), got.Elem(), content, nil, reflect.Value{}) || !reflect.DeepEqual(got.Interface(), want.Interface()) {
				t.Errorf("%v: got %v, want %v", kind, got, want)
			}
			shape := shapeOf(kind, true)
			for range 3 { // the second time it is kept, the third time it is shared
				got = reflect.New(kind)
				if !parts.fill(shape, got.Elem(), content, content, want.Elem()) || !reflect.DeepEqual(got.Interface(), want.Interface()) {
					t.Errorf("%v with help: got %v, want %v", kind, got, want)
				}
				got = reflect.New(kind)
				if !parts.fill(shape, got.Elem(), content, nil, reflect.Value{}) || !reflect.DeepEqual(got.Interface(), want.Interface()) {
					t.Errorf("%v with parts: got %v, want %v", kind, got, want)
				}
			}
		}
	}
	if kinds < 100 {
		t.Errorf("only %d kinds were tried", kinds)
	}
}

func BenchmarkDecodeReplica(b *testing.B) {
	var contents [][]byte
	for i := range 100 {
		contents = append(contents, mustEncode(b, replica("web", i)))
	}
	b.Run("generated", func(b *testing.B) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			_, _ = Decode[*corev1.Pod](contents[i%100])
		}
	})
	b.Run("sharing", func(b *testing.B) {
		b.ReportAllocs()
		d := NewDecoder[*corev1.Pod]()
		for i := 0; b.Loop(); i++ {
			_, _ = d.Decode(contents[i%100])
		}
	})
	b.Run("update", func(b *testing.B) {
		b.ReportAllocs()
		d := NewDecoder[*corev1.Pod]()
		before, _ := d.Decode(contents[0])
		for i := 0; b.Loop(); i++ {
			_, _ = d.DecodeLike(contents[i%100], contents[0], before)
		}
	})
}
