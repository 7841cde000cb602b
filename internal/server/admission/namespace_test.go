package admission_test

import (
	"context"
	"strconv"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/internal/server/admission"
	"github.com/millrace/millrace/internal/server/admission/internal/admissiontest"
	"github.com/millrace/millrace/internal/server/registry"
	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/store"
	"github.com/millrace/millrace/internal/server/store/memory"
	"github.com/millrace/millrace/internal/server/store/storetest"
)

// during is a server whose creates of secrets call a func after the check of the namespace, as if a webhook took its
// time. Its log can be held.
type during struct {
	*admissiontest.World
	log   *storetest.LateLog
	other *admissiontest.World // another server on the same store
	do    func()
}

func newDuring(t *testing.T) *during {
	inner := memory.New(memory.Options{})
	t.Cleanup(func() { inner.Close() })
	plugins := func(current *registry.Registry) []registry.Admission {
		return admission.Default(admission.Options{Registry: current})
	}
	d := &during{log: storetest.NewLateLog(inner), do: func() {}}
	slow := registry.Admission{Name: "slow", Mutate: func(_ context.Context, c *registry.Change) error {
		if c.Operation == registry.Create && c.Kind.Resource == "secrets" {
			d.do()
		}
		return nil
	}}
	d.other = admissiontest.New(t, admissiontest.Options{Store: inner, Admission: plugins})
	d.other.Create("namespaces", &corev1.Namespace{ObjectMeta: meta("n")})
	d.World = admissiontest.New(t, admissiontest.Options{Store: d.log, Admission: func(current *registry.Registry) []registry.Admission {
		return append(plugins(current), slow)
	}})
	return d
}

// remove deletes the namespace as its controller would: nothing is left when the controller looks.
func (d *during) remove(by *admissiontest.World) {
	d.terminate(by)
	list, err := by.Of("secrets").List(context.Background(), registry.ListQuery{Selection: registry.Selection{Namespace: "n"}})
	by.Must(err)
	for _, o := range list.Objects {
		by.Must(by.Remove("secrets", o.Name()))
	}
	_, err = by.UpdateView("namespaces", "", "n", "finalize", func(o resource.Object) { o.(*corev1.Namespace).Spec.Finalizers = nil })
	by.Must(err)
}

func (d *during) terminate(by *admissiontest.World) { by.Must(by.Remove("namespaces", "n")) }

func (d *during) secrets() int {
	page, err := d.Store.List(context.Background(), "/registry/secrets/n/", store.ListOptions{})
	d.Must(err)
	return len(page.Entries)
}

func TestNothingIsCreatedInANamespaceThatGoesMeanwhile(t *testing.T) {
	type deletion func(*during, *admissiontest.World)
	for what, ends := range map[string]deletion{"is gone": (*during).remove, "is being deleted": (*during).terminate} {
		for who, by := range map[string]func(*during) *admissiontest.World{
			"on this server":    func(d *during) *admissiontest.World { return d.World },
			"on another server": func(d *during) *admissiontest.World { return d.other },
		} {
			for _, held := range []bool{false, true} {
				t.Run(what+" "+who+map[bool]string{true: ", with a held log"}[held], func(t *testing.T) {
					d := newDuring(t)
					d.do = func() {
						if held {
							t.Cleanup(d.log.Hold())
						}
						ends(d, by(d))
					}
					_, err := d.Try("secrets", &corev1.Secret{ObjectMeta: meta("s")}, d.Options())
					if what == "is gone" && !apierrors.IsNotFound(err) || what != "is gone" && !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
						t.Errorf("the create: %v", err)
					}
					if n := d.secrets(); n != 0 {
						t.Errorf("%d objects are left in a namespace that %s", n, what)
					}
				})
			}
		}
	}
}

func TestADryRunSeesThatTheNamespaceIsGone(t *testing.T) {
	d := newDuring(t)
	defer d.log.Hold()()
	d.remove(d.other)
	if _, err := d.Try("secrets", &corev1.Secret{ObjectMeta: meta("s")}, registry.WriteOptions{DryRun: true}); !apierrors.IsNotFound(err) {
		t.Errorf("the create: %v", err)
	}
}

func TestAnObjectIsNotCreatedInAnotherNamespaceOfTheSameName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDuring(t)
		d.do = func() {
			d.remove(d.other)
			d.other.Create("namespaces", &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{"strict": "yes"}}})
		}
		if _, err := d.Try("secrets", &corev1.Secret{ObjectMeta: meta("s")}, d.Options()); !apierrors.IsServerTimeout(err) {
			t.Errorf("the create: %v", err)
		}
		d.do = func() {}
		synctest.Wait() // the cache shows the new one
		d.Create("secrets", &corev1.Secret{ObjectMeta: meta("s")})
	})
}

// The other server's namespace is there before the create begins, so neither "is gone" nor "is being deleted" is true.
func TestANamespaceThatIsThereAgainIsNotSaidToBeGone(t *testing.T) {
	for what, before := range map[string]func(*during){
		"the earlier one":            func(*during) {},
		"the end of the earlier one": func(d *during) { d.terminate(d.other) },
	} {
		t.Run("the cache shows "+what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDuring(t)
				before(d)
				synctest.Wait()
				release := d.log.Hold()
				d.remove(d.other)
				d.other.Create("namespaces", &corev1.Namespace{ObjectMeta: meta("n")})
				_, err := d.Try("secrets", &corev1.Secret{ObjectMeta: meta("s")}, d.Options())
				if !apierrors.IsServerTimeout(err) {
					t.Errorf("the create while the log is held: %v", err)
				}
				release()
				synctest.Wait()
				d.Create("secrets", &corev1.Secret{ObjectMeta: meta("s")})
			})
		})
	}
}

func TestAChangedNamespaceTakesObjectsAllTheSame(t *testing.T) {
	d := newDuring(t)
	release := d.log.Hold()
	defer release()
	for i := range 3 {
		_, err := d.other.Update("namespaces", "n", func(o resource.Object) { o.SetLabels(map[string]string{"round": strconv.Itoa(i)}) })
		d.Must(err)
		d.Create("secrets", &corev1.Secret{ObjectMeta: metav1.ObjectMeta{GenerateName: "s-"}})
	}
	if n := d.secrets(); n != 3 {
		t.Errorf("%d secrets", n)
	}
}
