package ownership

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/resource/apps"
	"github.com/millrace/millrace/internal/server/resource/core"
)

func kindOf(t *testing.T, name string) *resource.Kind {
	t.Helper()
	for _, k := range slices.Concat(apps.Kinds(), core.Kinds()) {
		if k.Kind == name {
			return k
		}
	}
	t.Fatal("no such kind: " + name)
	return nil
}

const deployment = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: default}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: c, image: nginx}]}`

// stage is where an object is changed by several.
type stage struct {
	*testing.T
	Owners
	kind *resource.Kind
	live resource.Object
}

func (s *stage) apply(text, view, manager string, force bool) error {
	s.Helper()
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
		s.Fatal(err)
	}
	merged, err := s.Apply(s.kind.Faces[0], view, s.live, u, manager, force)
	if err == nil {
		merged.SetUID("u")
		s.live = merged
	}
	return err
}

func (s *stage) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// update changes the object as a client does that reads and writes it.
func (s *stage) update(view, manager string, change func(resource.Object)) {
	s.Helper()
	obj := s.live.DeepCopyObject().(resource.Object)
	change(obj)
	s.must(s.Track(s.kind.Faces[0], view, s.live, obj, manager))
	s.live = obj
}

// owners is who owns what, in one line for each.
func (s *stage) owners() []string {
	var out []string
	for _, e := range s.live.GetManagedFields() {
		out = append(out, fmt.Sprintf("%s %s %s %s", e.Manager, e.Operation, e.Subresource, e.FieldsV1.GetRawString()))
	}
	return out
}

func (s *stage) entry(manager string) *metav1.ManagedFieldsEntry {
	for _, e := range s.live.GetManagedFields() {
		if e.Manager == manager {
			return &e
		}
	}
	return nil
}

func TestConflictsNameTheFieldsAndTheirOwners(t *testing.T) {
	s := &stage{T: t, kind: kindOf(t, "Deployment")}
	s.must(s.apply(deployment, "", "first", false))
	other := strings.ReplaceAll(strings.ReplaceAll(deployment, "replicas: 3", "replicas: 5"), "image: nginx", "image: httpd")
	err := s.apply(other, "", "second", false)
	if !apierrors.IsConflict(err) {
		t.Fatalf("got %v", err)
	}
	want := "Apply failed with 2 conflicts: conflicts with \"first\":\n- .spec.replicas\n- .spec.template.spec.containers[name=\"c\"].image"
	if err.Error() != want {
		t.Errorf("got %q\nwant %q", err.Error(), want)
	}
	causes := err.(apierrors.APIStatus).Status().Details.Causes
	if len(causes) != 2 || causes[0].Type != metav1.CauseTypeFieldManagerConflict || causes[0].Field != ".spec.replicas" {
		t.Errorf("causes: %v", causes)
	}
	s.must(s.apply(other, "", "second", true))
	if strings.Contains(s.entry("first").FieldsV1.GetRawString(), "replicas") {
		t.Error("the first still owns what was taken by force")
	}
	if got := *s.live.(*appsv1.Deployment).Spec.Replicas; got != 5 {
		t.Errorf("%d replicas", got)
	}
}

func TestApplyingLessRemovesWhatNobodyElseOwns(t *testing.T) {
	s := &stage{T: t, kind: kindOf(t, "ConfigMap")}
	const head = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n"
	s.must(s.apply(head+"data: {a: '1', b: '1'}", "", "one", false))
	s.must(s.apply(head+"data: {b: '1'}", "", "two", false))
	s.must(s.apply(head+"data: {}", "", "one", false))
	if got := fmt.Sprint(s.live.(*corev1.ConfigMap).Data); got != "map[b:1]" {
		t.Errorf("left: %s", got)
	}
}

func TestStatusHasOwnersOfItsOwn(t *testing.T) {
	s := &stage{T: t, kind: kindOf(t, "Deployment")}
	s.must(s.apply(deployment, "", "user", false))
	s.must(s.apply("apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec: {replicas: 9}\nstatus: {replicas: 2}", "status", "controller", true))
	want := []string{`controller Apply status {"f:status":{"f:replicas":{}}}`}
	if got := s.owners(); got[0] != want[0] && got[1] != want[0] {
		t.Errorf("owners: %s", strings.Join(got, "\n"))
	}
	if !strings.Contains(s.entry("user").FieldsV1.GetRawString(), "f:replicas") {
		t.Error("the status took a field of the spec")
	}
}

func TestScaleOwnsTheReplicas(t *testing.T) {
	s := &stage{T: t, kind: kindOf(t, "Deployment")}
	s.must(s.apply(deployment, "", "user", false))
	const scale = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, namespace: default}\nspec: {replicas: 7}"
	if err := s.apply(scale, "scale", "autoscaler", false); !apierrors.IsConflict(err) {
		t.Fatalf("without force: %v", err)
	}
	s.must(s.apply(scale, "scale", "autoscaler", true))
	if e := s.entry("autoscaler"); e == nil || e.Subresource != "scale" || e.FieldsV1.GetRawString() != `{"f:spec":{"f:replicas":{}}}` {
		t.Errorf("owners: %s", strings.Join(s.owners(), "\n"))
	}
	s.update("scale", "kubectl", func(o resource.Object) { *o.(*appsv1.Deployment).Spec.Replicas = 1 })
	if s.entry("autoscaler") != nil || s.entry("kubectl").Subresource != "scale" {
		t.Errorf("owners: %s", strings.Join(s.owners(), "\n"))
	}
}

// kubectl apply leaves an annotation with what it applied; kubectl apply --server-side takes over from there.
func TestServerSideApplyTakesOverFromClientSide(t *testing.T) {
	s := &stage{T: t, kind: kindOf(t, "ConfigMap")}
	annotated := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c", UID: "u", Annotations: map[string]string{
		corev1.LastAppliedConfigAnnotation: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"},"data":{"a":"1"}}`,
	}}, Data: map[string]string{"a": "1"}}
	s.must(s.Track(s.kind.Faces[0], "", nil, annotated, "kubectl-client-side-apply"))
	s.live = annotated
	const next = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {a: '2'}"
	if err := s.apply(next, "", "somebody", false); !apierrors.IsConflict(err) {
		t.Errorf("somebody else: %v", err)
	}
	s.must(s.apply(next, "", "kubectl", false))
	if got := s.live.GetAnnotations()[corev1.LastAppliedConfigAnnotation]; !strings.Contains(got, `"a":"2"`) {
		t.Errorf("annotation: %s", got)
	}
}

func TestEmptyManagedFieldsFromAClientResetThem(t *testing.T) {
	for name, reset := range map[string][]metav1.ManagedFieldsEntry{"[]": {}, "[{}]": {{}}} {
		s := &stage{T: t, kind: kindOf(t, "ConfigMap")}
		s.must(s.apply("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {a: '1'}", "", "one", false))
		s.update("", "two", func(o resource.Object) { o.SetManagedFields(nil) })
		if len(s.owners()) != 1 {
			t.Errorf("leaving them out: %v", s.owners())
		}
		s.update("", "two", func(o resource.Object) { o.SetManagedFields(reset) })
		if len(s.owners()) != 0 {
			t.Errorf("%s: %v", name, s.owners())
		}
	}
}

func TestTimesTellWhenSomethingWasChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stage{T: t, kind: kindOf(t, "ConfigMap")}
		const text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {a: '1'}"
		start := time.Now()
		s.must(s.apply(text, "", "one", false))
		time.Sleep(time.Minute)
		s.must(s.apply(text, "", "one", false))
		s.update("", "two", func(resource.Object) {})
		if e := s.entry("one"); !e.Time.Time.Equal(start) || len(s.owners()) != 1 {
			t.Errorf("nothing was changed: %v at %v", s.owners(), e.Time)
		}
		s.update("", "two", func(o resource.Object) { o.(*corev1.ConfigMap).Data["b"] = "1" })
		if e := s.entry("two"); e == nil || !e.Time.Time.Equal(start.Add(time.Minute)) {
			t.Errorf("owners: %v", s.owners())
		}
	})
}

func TestOldestUpdatersAreMergedWhenThereAreMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stage{T: t, kind: kindOf(t, "ConfigMap")}
		s.must(s.apply("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {a: '1'}", "", "applier", false))
		for i := range 14 {
			time.Sleep(time.Second)
			s.update("", fmt.Sprint("updater-", i), func(o resource.Object) { o.(*corev1.ConfigMap).Data[fmt.Sprint("k", i)] = "1" })
		}
		e := s.entry("ancient-changes")
		if len(s.owners()) != 11 || e == nil || e.FieldsV1.GetRawString() != `{"f:data":{"f:k0":{},"f:k1":{},"f:k2":{},"f:k3":{},"f:k4":{}}}` {
			t.Errorf("owners: %s", strings.Join(s.owners(), "\n"))
		}
	})
}

func TestPodStatusOwnsNeitherSpecNorOwners(t *testing.T) {
	s := &stage{T: t, kind: kindOf(t, "Pod")}
	created := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "u"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
		Status: corev1.PodStatus{Phase: corev1.PodPending}}
	s.must(s.Track(s.kind.Faces[0], "", nil, created, "creator"))
	s.live = created
	s.update("status", "kubelet", func(o resource.Object) {
		p := o.(*corev1.Pod)
		p.Status.Phase, p.Spec.NodeName = corev1.PodRunning, "n"
		p.OwnerReferences = []metav1.OwnerReference{{UID: "x"}}
	})
	want := []string{
		`creator Update  {"f:spec":{"f:containers":{"k:{\"name\":\"c\"}":{".":{},"f:image":{},"f:name":{},"f:resources":{}}}}}`,
		`kubelet Update status {"f:status":{"f:phase":{}}}`,
	}
	if got := s.owners(); !slices.Equal(got, want) {
		t.Errorf("owners: %s", strings.Join(got, "\n"))
	}
}
