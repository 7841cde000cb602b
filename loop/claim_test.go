package loop_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/millrace/millrace/loop"
)

func labelled(value string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Labels = map[string]string{"app": value} }
}

func dying(p *corev1.Pod) { now := metav1.Now(); p.DeletionTimestamp = &now }

func replicaSet(name string) *appsv1.ReplicaSet {
	return &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: uidOf(name)}}
}

// claims returns the Claims of the ReplicaSet web, which selects app=web, with a fake server.
func claims(kube *fake.Clientset, live *int) *loop.Claims[*corev1.Pod] {
	return &loop.Claims[*corev1.Pod]{
		Owner:    replicaSet("web"),
		Kind:     replicaSetKind,
		Selector: labels.SelectorFromSet(labels.Set{"app": "web"}),
		Live: func(context.Context) (metav1.Object, error) {
			*live++
			return replicaSet("web"), nil
		},
		Patch: func(ctx context.Context, p *corev1.Pod, patch []byte) error {
			_, err := kube.CoreV1().Pods(p.Namespace).Patch(ctx, p.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
			return err
		},
	}
}

func TestClaimAdoptsMatchingOrphansAndReleasesObjectsThatNoLongerMatch(t *testing.T) {
	pods := []*corev1.Pod{
		pod("mine", labelled("web"), ownedBy("apps/v1", "ReplicaSet", "web")),
		pod("lost", labelled("db"), ownedBy("apps/v1", "ReplicaSet", "web")),
		pod("theirs", labelled("web"), ownedBy("apps/v1", "ReplicaSet", "db")),
		pod("orphan", labelled("web")),
		pod("orphan2", labelled("web")),
		pod("stranger", labelled("db")),
		pod("dying", labelled("web"), dying),
		pod("elsewhere", labelled("web"), func(p *corev1.Pod) { p.Namespace = "other" }),
	}
	kube := fake.NewClientset()
	for _, p := range pods {
		kube.CoreV1().Pods(p.Namespace).Create(t.Context(), p, metav1.CreateOptions{})
	}
	live := 0
	owned, err := claims(kube, &live).Claim(t.Context(), slices.Values(pods))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, p := range owned {
		names = append(names, p.Name)
	}
	if !slices.Equal(names, []string{"mine", "orphan", "orphan2"}) || live != 1 {
		t.Errorf("claimed %q after %d live reads; want mine, orphan, orphan2 after one", names, live)
	}
	for name, want := range map[string]string{
		"mine": "web", "lost": "", "theirs": "db", "orphan": "web", "orphan2": "web", "stranger": "", "dying": "",
	} {
		p, err := kube.CoreV1().Pods("ns").Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		ref := metav1.GetControllerOf(p)
		if ref == nil {
			ref = &metav1.OwnerReference{}
		}
		if ref.Name != want {
			t.Errorf("the server says that %s belongs to %q, want %q", name, ref.Name, want)
		}
		if name == "orphan" && (ref.UID != uidOf("web") || ref.Kind != "ReplicaSet" || ref.APIVersion != "apps/v1" || !*ref.BlockOwnerDeletion) {
			t.Errorf("the new owner reference is %+v", ref)
		}
	}
	for _, action := range kube.Actions() {
		if patch, ok := action.(interface{ GetPatch() []byte }); ok && !strings.Contains(string(patch.GetPatch()), `"uid":"uid-`) {
			t.Errorf("a patch without uid could hit another object: %s", patch.GetPatch())
		}
	}
}

func TestAnOwnerThatIsBeingDeletedAdoptsAndReleasesNothing(t *testing.T) {
	live := 0
	c := claims(fake.NewClientset(), &live)
	now := metav1.Now()
	c.Owner.SetDeletionTimestamp(&now)
	owned, err := c.Claim(t.Context(), slices.Values([]*corev1.Pod{
		pod("orphan", labelled("web")),
		pod("lost", labelled("db"), ownedBy("apps/v1", "ReplicaSet", "web")),
		pod("mine", labelled("web"), ownedBy("apps/v1", "ReplicaSet", "web")),
	}))
	if err != nil || len(owned) != 1 || owned[0].Name != "mine" || live != 0 {
		t.Errorf("claimed %d pods after %d live reads with %v", len(owned), live, err)
	}
}

func TestAStaleOwnerDoesNotAdopt(t *testing.T) {
	gone := apierrors.NewNotFound(schema.GroupResource{Resource: "replicasets"}, "web")
	replaced, deleted := replicaSet("web"), replicaSet("web")
	replaced.UID = "another"
	now := metav1.Now()
	deleted.DeletionTimestamp = &now
	for want, answer := range map[string]func(context.Context) (metav1.Object, error){
		"not found":             func(context.Context) (metav1.Object, error) { return nil, gone },
		"original ReplicaSet":   func(context.Context) (metav1.Object, error) { return replaced, nil },
		"just been deleted at ": func(context.Context) (metav1.Object, error) { return deleted, nil },
	} {
		live := 0
		kube := fake.NewClientset()
		c := claims(kube, &live)
		c.Live = answer
		owned, err := c.Claim(t.Context(), slices.Values([]*corev1.Pod{
			pod("orphan", labelled("web")), pod("mine", labelled("web"), ownedBy("apps/v1", "ReplicaSet", "web"))}))
		if len(owned) != 1 || err == nil || !strings.Contains(err.Error(), want) || len(kube.Actions()) != 0 {
			t.Errorf("claimed %d with %v after %d writes; want 1, %q and none", len(owned), err, len(kube.Actions()), want)
		}
	}
}

func TestReleasingAGoneOrForeignObjectIsNoError(t *testing.T) {
	resource := schema.GroupResource{Resource: "pods"}
	invalid := apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "lost", nil)
	for _, answer := range []error{nil, apierrors.NewNotFound(resource, "lost"), invalid, errors.New("no network")} {
		live := 0
		c := claims(fake.NewClientset(), &live)
		c.Patch = func(context.Context, *corev1.Pod, []byte) error { return answer }
		lost := pod("lost", labelled("db"), ownedBy("apps/v1", "ReplicaSet", "web"))
		_, err := c.Claim(t.Context(), slices.Values([]*corev1.Pod{lost}))
		if serious := fmt.Sprint(answer) == "no network"; serious != (err != nil) {
			t.Errorf("the server answered %v, Claim %v", answer, err)
		}
	}
}
