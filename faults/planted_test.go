package faults_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/faults"
	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/loop"
	"github.com/millrace/millrace/millracetest"
)

// The operators in this file keep a Secret for each ConfigMap with a label, with the same text. One is correct; each of
// the others has a typical bug.

const (
	namespace = "default"
	original  = "copy"        // the label of config maps that are copied
	made      = "copy-of"     // the label of a copy
	finalizer = "example/end" // used by an operator that cleans up itself
)

// operator is what the operators share.
type operator struct {
	kube      kubernetes.Interface
	originals *informer.Shared[*corev1.ConfigMap]
	copies    *informer.Shared[*corev1.Secret]
	made      int // counts the copies that staleCache has made
}

func newOperator(clients *loop.Clients) *operator {
	return &operator{
		kube:      clients.Kube,
		originals: loop.Informer(clients, informer.For(clients.Kube.CoreV1().ConfigMaps(namespace)), loop.Selection{Labels: original}),
		copies:    loop.Informer(clients, informer.For(clients.Kube.CoreV1().Secrets(namespace)), loop.Selection{Labels: made}),
	}
}

func text(s *corev1.Secret) string { return string(s.Data["text"]) }

func copyOf(m *corev1.ConfigMap) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: m.Name, Labels: map[string]string{made: m.Name},
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(m, corev1.SchemeGroupVersion.WithKind("ConfigMap"))},
	}, Data: map[string][]byte{"text": []byte(m.Data["text"])}}
}

// write creates or updates a copy.
func (o *operator) write(ctx context.Context, want *corev1.Secret) error {
	client := o.kube.CoreV1().Secrets(namespace)
	have, err := client.Get(ctx, want.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		_, err = client.Create(ctx, want, metav1.CreateOptions{})
		return err
	case err != nil || text(have) == text(want):
		return err
	}
	have.Data = want.Data
	_, err = client.Update(ctx, have, metav1.UpdateOptions{})
	return err
}

// sync handles one original, which is nil if it was deleted.
type sync func(o *operator, ctx context.Context, name string, m *corev1.ConfigMap) error

func good(o *operator, ctx context.Context, _ string, m *corev1.ConfigMap) error {
	if m == nil {
		return nil
	}
	return o.write(ctx, copyOf(m))
}

// staleCache assumes that an object that its cache does not show does not exist.
func staleCache(o *operator, ctx context.Context, name string, m *corev1.ConfigMap) error {
	if m == nil {
		return nil
	}
	client, want := o.kube.CoreV1().Secrets(namespace), copyOf(m)
	for have := range o.copies.Snapshot().Select(labels.SelectorFromSet(labels.Set{made: name})) {
		if text(have) == text(want) {
			return nil
		}
		have = have.DeepCopy()
		have.Data = want.Data
		_, err := client.Update(ctx, have, metav1.UpdateOptions{})
		return err
	}
	o.made++
	want.Name = fmt.Sprintf("%s-%d", name, o.made)
	_, err := client.Create(ctx, want, metav1.CreateOptions{})
	return err
}

// noRequeue gives up on a conflict.
func noRequeue(o *operator, ctx context.Context, name string, m *corev1.ConfigMap) error {
	err := good(o, ctx, name, m)
	if apierrors.IsConflict(err) {
		return nil
	}
	return err
}

// leakedFinalizer assumes that it has cleaned up when there is nothing left to clean up.
func leakedFinalizer(o *operator, ctx context.Context, name string, m *corev1.ConfigMap) error {
	if m == nil {
		return nil
	}
	client := o.kube.CoreV1().ConfigMaps(namespace)
	if m.DeletionTimestamp != nil {
		err := o.kube.CoreV1().Secrets(namespace).Delete(ctx, name, metav1.DeleteOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err == nil {
			m = m.DeepCopy()
			m.Finalizers = nil
			_, err = client.Update(ctx, m, metav1.UpdateOptions{})
		}
		return err
	}
	if len(m.Finalizers) == 0 {
		m = m.DeepCopy()
		m.Finalizers = []string{finalizer}
		_, err := client.Update(ctx, m, metav1.UpdateOptions{})
		return err
	}
	return good(o, ctx, name, m)
}

// missingOwner relies on receiving each deletion.
func missingOwner(o *operator, ctx context.Context, name string, m *corev1.ConfigMap) error {
	if m == nil {
		err := o.kube.CoreV1().Secrets(namespace).Delete(ctx, name, metav1.DeleteOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	}
	want := copyOf(m)
	want.OwnerReferences = nil
	return o.write(ctx, want)
}

// notIdempotent adds to the existing text instead of setting it: the copy's text is a sum of steps.
func notIdempotent(o *operator, ctx context.Context, name string, m *corev1.ConfigMap) error {
	if m == nil {
		return nil
	}
	client, want := o.kube.CoreV1().Secrets(namespace), copyOf(m)
	have, err := client.Get(ctx, want.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		want.Data = map[string][]byte{"text": []byte("0")}
		have, err = client.Create(ctx, want, metav1.CreateOptions{})
	}
	if err != nil || have.Annotations["seen"] == m.Data["text"] {
		return err
	}
	now, _ := strconv.Atoi(text(have))
	have.Data["text"] = []byte(strconv.Itoa(now + 1))
	if have, err = client.Update(ctx, have, metav1.UpdateOptions{}); err != nil {
		return err
	}
	have.Annotations = map[string]string{"seen": m.Data["text"]}
	_, err = client.Update(ctx, have, metav1.UpdateOptions{})
	return err
}

// levelled runs a sync in a loop, which retries it until it succeeds.
func levelled(f sync) func(context.Context, *loop.Clients) error { return wokenBy(f, true) }

// wokenBy is levelled, with or without a watch of the copies.
func wokenBy(f sync, copies bool) func(context.Context, *loop.Clients) error {
	return func(ctx context.Context, clients *loop.Clients) error {
		o := newOperator(clients)
		l := &loop.Loop{Name: "copies", Clients: clients, Watches: []loop.Watch{loop.Self(o.originals), loop.Reads(o.copies)},
			Sync: func(ctx context.Context, key loop.Key) (loop.Result, error) {
				m, _ := o.originals.Lookup(key)
				return loop.Result{}, f(o, ctx, key.Name, m)
			}}
		if copies {
			l.Watches = append(l.Watches, loop.Mapped(o.copies, func(s *corev1.Secret) []loop.Key {
				return []loop.Key{{Namespace: namespace, Name: s.Labels[made]}}
			}))
		}
		return loop.Run(ctx, clients, l)
	}
}

// edgeTriggered acts on events and does not retry.
func edgeTriggered(ctx context.Context, clients *loop.Clients) error {
	o := newOperator(clients)
	act := func(m *corev1.ConfigMap) { _ = good(o, ctx, m.Name, m) }
	handling := o.originals.Handle(informer.Handler[*corev1.ConfigMap]{Added: func(m *corev1.ConfigMap, _ bool) { act(m) }, Updated: func(_, m *corev1.ConfigMap) { act(m) }})
	defer func() {
		handling.Close()
		<-handling.Done()
	}()
	return loop.Run(ctx, clients, loop.Func(func(ctx context.Context) error { <-ctx.Done(); return nil }))
}

// live runs an operator while its requests fail and objects change, and returns what is wrong after a while.
func live(t *testing.T, run func(context.Context, *loop.Clients) error) func(*faults.Transport) error {
	return func(transport *faults.Transport) (wrong error) {
		synctest.Test(t, func(t *testing.T) {
			cluster := millracetest.Start(t, millrace.Options{Listen: "none", Controllers: []string{"garbage-collector-controller"}, NoScheduler: true})
			kube := millracetest.Clientset(t, cluster)
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() {
				ended <- transport.Run(ctx, func(ctx context.Context) error {
					config := rest.CopyConfig(cluster.Config())
					config.Wrap(transport.Wrap)
					clients, err := loop.NewClients(config, nil)
					if err != nil {
						return err
					}
					return run(ctx, clients)
				})
			}()
			change(t, kube.CoreV1().ConfigMaps(namespace))
			transport.Heal()
			time.Sleep(5 * time.Minute)
			wrong = compare(t, kube)
			cancel()
			<-ended
		})
		return wrong
	}
}

// change makes three originals, changes each twice, and deletes one.
func change(t *testing.T, users typedcorev1.ConfigMapInterface) {
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	names := []string{"a", "b", "c"}
	for _, name := range names {
		_, err := users.Create(t.Context(), &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{original: "yes"}}, Data: map[string]string{"text": "1"},
		}, metav1.CreateOptions{})
		must(err)
	}
	for i := range 2 {
		time.Sleep(10 * time.Second)
		for _, name := range names {
			m, err := users.Get(t.Context(), name, metav1.GetOptions{})
			must(err)
			m.Data["text"] = fmt.Sprint(i + 2)
			_, err = users.Update(t.Context(), m, metav1.UpdateOptions{})
			for apierrors.IsConflict(err) {
				m, err = users.Get(t.Context(), name, metav1.GetOptions{})
				must(err)
				m.Data["text"] = fmt.Sprint(i + 2)
				_, err = users.Update(t.Context(), m, metav1.UpdateOptions{})
			}
			must(err)
		}
	}
	time.Sleep(10 * time.Second)
	must(users.Delete(t.Context(), "b", metav1.DeleteOptions{}))
	time.Sleep(10 * time.Second)
}

// compare returns what is wrong with the copies.
func compare(t *testing.T, kube kubernetes.Interface) error {
	originals, err := kube.CoreV1().ConfigMaps(namespace).List(t.Context(), metav1.ListOptions{LabelSelector: original})
	if err != nil {
		t.Fatal(err)
	}
	secrets, err := kube.CoreV1().Secrets(namespace).List(t.Context(), metav1.ListOptions{LabelSelector: made})
	if err != nil {
		t.Fatal(err)
	}
	texts, copies := map[string]string{}, map[string]int{}
	for _, m := range originals.Items {
		texts[m.Name] = m.Data["text"]
		if m.DeletionTimestamp != nil {
			return fmt.Errorf("%s is deleted and does not go: its finalizers are %v", m.Name, m.Finalizers)
		}
	}
	for _, s := range secrets.Items {
		of := s.Labels[made]
		copies[of]++
		switch want, ok := texts[of]; {
		case !ok:
			return fmt.Errorf("secret %s is left of %s, which has gone", s.Name, of)
		case want != text(&s):
			return fmt.Errorf("secret %s says %q, and %s says %q", s.Name, text(&s), of, want)
		case copies[of] > 1:
			return fmt.Errorf("%s has %d copies", of, copies[of])
		}
	}
	if len(copies) != 2 {
		return fmt.Errorf("there are copies of %d config maps, not of 2", len(copies))
	}
	return nil
}

func TestACorrectOperatorPassesWithAllFaults(t *testing.T) {
	if f := faults.Search(10, faults.Usual(1), live(t, levelled(good))); f != nil {
		t.Error(f)
	}
}

func TestEveryPlantedBugIsFoundAndItsAssumptionNamed(t *testing.T) {
	for name, test := range map[string]struct {
		run    func(context.Context, *loop.Clients) error
		broken []faults.Fault // one of these must be among the faults that were found; nil means any
	}{
		"stale cache":      {levelled(staleCache), []faults.Fault{faults.Hold, faults.LostAnswer, faults.Crash, faults.Cut, faults.Expire, faults.Down}},
		"no requeue":       {levelled(noRequeue), []faults.Fault{faults.Conflict}},
		"edge-triggered":   {edgeTriggered, nil},
		"leaked finalizer": {levelled(leakedFinalizer), nil},
		"missing owner":    {wokenBy(missingOwner, false), []faults.Fault{faults.CrashBefore, faults.Crash}},
		"not idempotent":   {levelled(notIdempotent), nil},
	} {
		t.Run(name, func(t *testing.T) {
			if err := live(t, test.run)(faults.New(faults.Plan{})); err != nil {
				t.Fatalf("it fails without any fault: %v", err)
			}
			f := faults.Search(30, faults.Usual(1), live(t, test.run))
			if f == nil {
				t.Fatal("the bug was not found")
			}
			t.Logf("after %d plans:\n%s", f.Tries, f)
			// A few rules are enough for each of these. One more stays when the plan without it happened to pass three times, which a
			// busy machine makes likelier: what a program asks for at the same moment has no fixed order.
			if !f.Repeats || len(f.Plan.Rules) > 8 {
				t.Errorf("the plan is not short: %s", f.Plan)
			}
			if test.broken != nil && !slices.ContainsFunc(f.Plan.Rules, func(r faults.Rule) bool { return slices.Contains(test.broken, r.Fault) }) {
				t.Errorf("the bug was found by none of %v", test.broken)
			}
		})
	}
}
