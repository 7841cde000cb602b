package legacytoken_test

import (
	"context"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/millrace/millrace/internal/controllers/legacytoken"
	"github.com/millrace/millrace/loop"
)

const (
	day          = 24 * time.Hour
	period       = 5 * day
	lastUsed     = "kubernetes.io/legacy-token-last-used"
	invalidSince = "kubernetes.io/legacy-token-invalid-since"
)

// world is a cluster with an account and its secrets.
type world struct {
	t    *testing.T
	kube *fake.Clientset
}

// newWorld makes the account default/builder, which lists all secrets but "manual", and runs the cleaner.
func newWorld(t *testing.T, since string, secrets ...string) world {
	t.Helper()
	named := func(namespace, name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: name, CreationTimestamp: metav1.Now()}
	}
	account := &corev1.ServiceAccount{ObjectMeta: named("default", "builder")}
	objects := []runtime.Object{
		account, &corev1.ConfigMap{ObjectMeta: named("kube-system", "kube-apiserver-legacy-service-account-token-tracking"), Data: map[string]string{"since": since}},
		&corev1.Pod{ObjectMeta: named("default", "user"), Spec: corev1.PodSpec{Volumes: []corev1.Volume{
			{Name: "token", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "mounted"}}},
		}}},
	}
	for _, name := range secrets {
		meta := named("default", name)
		meta.Annotations = map[string]string{corev1.ServiceAccountNameKey: "builder"}
		objects = append(objects, &corev1.Secret{ObjectMeta: meta, Type: corev1.SecretTypeServiceAccountToken})
		if name != "manual" {
			account.Secrets = append(account.Secrets, corev1.ObjectReference{Name: name})
		}
	}
	w := world{t, fake.NewClientset(objects...)}
	clients := loop.ClientsFor(w.kube)
	r, err := legacytoken.Cleaning{Period: period}.Entry().Make(clients)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- loop.Run(ctx, clients, r) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return w
}

// pass lets days pass, on each of which somebody uses the secret "used".
func (w world) pass(days int) {
	for range days {
		time.Sleep(day)
		synctest.Wait()
		if secrets := w.secrets(); slices.Contains(slices.Collect(maps.Keys(secrets)), "used") {
			w.label("used", lastUsed, time.Now().UTC().Format(time.DateOnly))
		}
	}
}

func (w world) label(name, key, value string) {
	w.edit(name, func(s *corev1.Secret) { metav1.SetMetaDataLabel(&s.ObjectMeta, key, value) })
}

func (w world) edit(name string, change func(*corev1.Secret)) {
	w.t.Helper()
	secrets := w.kube.CoreV1().Secrets("default")
	s, err := secrets.Get(w.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	change(s)
	if _, err := secrets.Update(w.t.Context(), s, metav1.UpdateOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

// secrets returns since when the secrets are invalid, by their names.
func (w world) secrets() map[string]string {
	w.t.Helper()
	list, err := w.kube.CoreV1().Secrets("default").List(w.t.Context(), metav1.ListOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	all := map[string]string{}
	for _, s := range list.Items {
		all[s.Name] = s.Labels[invalidSince]
	}
	return all
}

func (w world) want(when string, want map[string]string) {
	w.t.Helper()
	if got := w.secrets(); !maps.Equal(got, want) {
		w.t.Errorf("%s: %v, want %v", when, got, want)
	}
}

func TestAnUnusedTokenIsInvalidatedAndThenDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now().UTC()
		w := newWorld(t, start.Format(time.DateOnly), "idle", "manual", "mounted", "used")
		valid := map[string]string{"idle": "", "manual": "", "mounted": "", "used": ""}
		w.pass(5)
		w.want("before the period has passed", valid)
		w.pass(2) // uses count from the day after the tracking began
		since := w.secrets()["idle"]
		if at, err := time.Parse(time.DateOnly, since); err != nil || at.Before(start.Add(period)) {
			t.Fatalf("after the period the idle token is invalid since %q", since)
		}
		invalid := map[string]string{"idle": since, "manual": "", "mounted": "", "used": ""}
		w.want("after the period", invalid)
		w.pass(4)
		w.want("before it was invalid for the period", invalid)
		w.pass(2)
		w.want("after it was invalid for the period", map[string]string{"manual": "", "mounted": "", "used": ""})
	})
}

func TestATokenThatWasUsedWhileInvalidStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, time.Now().UTC().Format(time.DateOnly), "tried")
		w.pass(8)
		w.label("tried", lastUsed, time.Now().UTC().Format(time.DateOnly))
		w.pass(4)
		if _, ok := w.secrets()["tried"]; !ok {
			t.Error("it was deleted though somebody has tried to use it within the period")
		}
		w.pass(5)
		if _, ok := w.secrets()["tried"]; ok {
			t.Error("it stays though nobody uses it")
		}
	})
}

func TestNothingIsRemovedBeforeUsesWereRecordedForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, time.Now().UTC().Add(4*day).Format(time.DateOnly), "idle")
		w.pass(9)
		w.want("4 days after the record began", map[string]string{"idle": ""})
		w.pass(2)
		if w.secrets()["idle"] == "" {
			t.Error("two days later it is still valid")
		}
	})
}

func TestASecretOfAnotherAccountIsLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, time.Now().UTC().Format(time.DateOnly), "foreign", "unreadable")
		w.edit("foreign", func(s *corev1.Secret) { s.Annotations[corev1.ServiceAccountUIDKey] = "another" })
		w.label("unreadable", lastUsed, "yesterday")
		w.pass(8)
		w.want("after 8 days", map[string]string{"foreign": "", "unreadable": ""})
	})
}
