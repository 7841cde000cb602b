package wire

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/internal/deflate"
	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/resource/builtin"
)

func kindNamed(t testing.TB, name string) *resource.Kind {
	t.Helper()
	for _, k := range builtin.Kinds() {
		if k.Kind == name {
			return k
		}
	}
	t.Fatalf("no kind %s", name)
	return nil
}

func metaFor(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: name, Namespace: "default", UID: "0b9e8c1a-7c5e-4a53-9f0e-2f6d3c1b5a77", Generation: 1,
		CreationTimestamp: metav1.Unix(1_700_000_000, 0), Labels: map[string]string{"app": "web", "tier": "front"},
	}
}

// podOf6KB returns a typical pod of a cluster: defaulted, bound, running, with managed fields.
func podOf6KB() *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metaFor("web-6d4cf56db6-x2x8k")}
	fields := `{"f:metadata":{"f:labels":{".":{},"f:app":{},"f:tier":{}}},"f:spec":{"f:containers":{`
	for i := range 2 {
		c := corev1.Container{
			Name: fmt.Sprintf("c%d", i), Image: "images.example/app:1.2.3", Command: []string{"/app", "--serve"}, ImagePullPolicy: "IfNotPresent",
			TerminationMessagePath: "/dev/termination-log", TerminationMessagePolicy: "File",
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": apiresource.MustParse("250m"), "memory": apiresource.MustParse("64Mi")}},
			Ports:     []corev1.ContainerPort{{Name: "http", ContainerPort: 8080, Protocol: "TCP"}},
		}
		fields += fmt.Sprintf(`"k:{\"name\":\"c%d\"}":{".":{},"f:image":{},"f:name":{},"f:env":{".":{}`, i)
		for j := range 13 {
			c.Env = append(c.Env, corev1.EnvVar{Name: fmt.Sprintf("VARIABLE_%d", j), Value: "some value of it"})
			fields += fmt.Sprintf(`,"k:{\"name\":\"VARIABLE_%d\"}":{".":{},"f:name":{},"f:value":{}}`, j)
		}
		fields += "}},"
		p.Spec.Containers = append(p.Spec.Containers, c)
		p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{
			Name: c.Name, Image: c.Image, ImageID: "sha256:" + strings.Repeat("0123abcd", 8), ContainerID: "pretended://" + strings.Repeat("0123abcd", 8), Ready: true,
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Unix(1_700_000_001, 0)}},
		})
	}
	fields = strings.TrimSuffix(fields, ",") + `},"f:restartPolicy":{}}}`
	at := metav1.Unix(1_700_000_000, 0)
	for _, m := range []string{"controllers", "kubelet"} {
		p.ManagedFields = append(p.ManagedFields, metav1.ManagedFieldsEntry{Manager: m, Operation: "Update", APIVersion: "v1", Time: &at, FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(fields)})
		fields = `{"f:status":{"f:conditions":{".":{},"k:{\"type\":\"Ready\"}":{".":{},"f:status":{},"f:type":{}}},"f:phase":{},"f:podIP":{}}}`
	}
	p.Spec.NodeName, p.Spec.RestartPolicy, p.Spec.DNSPolicy, p.Spec.SchedulerName = "node-1", "Always", "ClusterFirst", "default-scheduler"
	p.Status.Phase, p.Status.PodIP, p.Status.StartTime = "Running", "10.1.2.3", &at
	for _, c := range []corev1.PodConditionType{"Initialized", "Ready", "ContainersReady", "PodScheduled"} {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: c, Status: "True", LastTransitionTime: at})
	}
	return p
}

func leaseOf() *coordinationv1.Lease {
	holder, seconds, now := "node-1", int32(40), metav1.NewMicroTime(time.Unix(1_700_000_000, 123_456_000))
	return &coordinationv1.Lease{ObjectMeta: metaFor("node-1"), Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &seconds, RenewTime: &now}}
}

// BenchmarkStages measures the work that is done once for each version of an object, next to the simple ways of doing
// it.
func BenchmarkStages(b *testing.B) {
	for _, o := range []struct {
		name string
		kind *resource.Kind
		of   resource.Object
	}{
		{"pod", kindNamed(b, "Pod"), podOf6KB()},
		{"lease", kindNamed(b, "Lease"), leaseOf()},
		{"configmap", kindNamed(b, "ConfigMap"), &corev1.ConfigMap{ObjectMeta: metaFor("settings"), Data: map[string]string{"key": "value"}}},
	} {
		stored, err := o.kind.Encode(context.Background(), o.of)
		if err != nil {
			b.Fatal(err)
		}
		text, err := makeJSON(context.Background(), o.kind, stored, 12345)
		if err != nil {
			b.Fatal(err)
		}
		stage := func(name string, f func()) {
			b.Run(o.name+"/"+name, func(b *testing.B) {
				b.ReportAllocs()
				b.SetBytes(int64(len(text)))
				for b.Loop() {
					f()
				}
			})
		}
		stage("decode", func() { o.kind.Decode(context.Background(), stored, "12345") })
		stage("marshal", func() { json.Marshal(o.of) })
		stage("encode", func() { makeJSON(context.Background(), o.kind, stored, 12345) })
		stage("compress", func() { deflate.Compress(text) })
		stage("compress against the frame before", func() { deflate.CompressAfter(text, text) })
		var frame []byte
		stage("splice", func() {
			m, _, _ := messageOf(o.kind, stored, 12345)
			frame = m.Append(frame[:0])
		})
	}
}
