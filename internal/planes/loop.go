package planes

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"reflect"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/loop"
)

// Program is the user agent of the loop.
const Program = "millrace-planes"

// finalizer keeps the object of a plane until the plane is gone.
const finalizer = Group + "/plane"

// controlLoop makes planes as their objects say.
type controlLoop struct {
	*loop.Loop
	planes    *Planes
	clients   *loop.Clients
	cache     *informer.Shared[*ControlPlane]
	writer    *loop.Writer[*ControlPlane]
	finalizer *loop.Finalizer[*ControlPlane]
}

// Loop returns the loop that makes planes. The host must know the kind by now.
func (p *Planes) Loop(clients *loop.Clients) (loop.Runner, error) {
	clients = clients.As(Program)
	resource, err := loop.ResourceFor[*ControlPlane](clients, GVK, Resource)
	if err != nil {
		return nil, err
	}
	l := &controlLoop{planes: p, clients: clients, cache: loop.Informer[*ControlPlane](clients, resource)}
	l.writer = loop.NewWriter(resource, l.cache, Program)
	l.finalizer = &loop.Finalizer[*ControlPlane]{Name: finalizer, Writer: l.writer, Cleanup: p.remove}
	l.Loop = &loop.Loop{Name: "controlplane", Clients: clients, Workers: atOnce, Sync: l.sync, Watches: []loop.Watch{loop.Self(l.cache)}}
	p.loop = l
	close(p.looped)
	return l, nil
}

// get returns a plane's object, or nil if there is none.
func (l *controlLoop) get(ctx context.Context, name string) (*ControlPlane, error) {
	if err := l.cache.Synced(ctx); err != nil {
		return nil, fmt.Errorf("what control planes there are is not known yet: %w", err)
	}
	c, _ := l.cache.Get("", name)
	return c, nil
}

// changed has the status of a plane written.
func (l *controlLoop) changed(name string) {
	l.AddSaying(loop.Key{Name: name}, "the plane has begun or ended to sleep")
}

func (l *controlLoop) sync(ctx context.Context, key loop.Key) (loop.Result, error) {
	c, ok := l.cache.Lookup(key)
	if !ok {
		return loop.Result{}, nil
	}
	if goOn, err := l.finalizer.Handle(ctx, c); !goOn || err != nil {
		return loop.Result{}, err
	}
	left, err := l.expire(ctx, c)
	if err != nil || left < 0 {
		return loop.Result{}, err
	}
	one, err := l.planes.row(c)
	if err != nil {
		return loop.Result{}, err
	}
	status := c.Status
	err = l.bring(ctx, c, one, &status)
	return loop.Result{After: left}, errors.Join(err, l.report(ctx, c, one, status, err))
}

// expire deletes a plane whose time is over, and returns how long it has: less than nothing if it is over, zero if there
// is no end.
func (l *controlLoop) expire(ctx context.Context, c *ControlPlane) (time.Duration, error) {
	end := c.expires()
	if end.IsZero() {
		return 0, nil
	}
	if left := end.Sub(l.clients.Now()); left > 0 {
		return left, nil
	}
	return -1, l.writer.Delete(ctx, c)
}

// bring has a plane be as its object says. One that was never there is started once, so that it has its objects and its
// keys.
func (l *controlLoop) bring(ctx context.Context, c *ControlPlane, one *plane, status *Status) error {
	if status.Phase == "" {
		if err := l.fork(ctx, c, one, status); err != nil {
			return err
		}
	}
	if err := one.set(ctx, c.settings()); err != nil {
		return err
	}
	if status.Phase == "" || status.Phase == Failed {
		if _, err := one.acquire(ctx); err != nil {
			return err
		}
		one.release()
	}
	if asked := c.Annotations[SleepAnnotation]; asked != status.Slept {
		slept, err := one.sleep()
		if phase, _, _ := one.phase(); !slept && phase != Asleep || err != nil {
			return errors.Join(err, errors.New("the control plane is in use, and cannot sleep"))
		}
		status.Slept = asked
	}
	return l.publish(ctx, c, one, status)
}

// fork makes the directory of a plane from another plane, if its object names one.
func (l *controlLoop) fork(ctx context.Context, c *ControlPlane, one *plane, status *Status) error {
	from := c.Spec.From
	if from == nil {
		return nil
	}
	if one.directory == "" {
		return loop.Terminal(errors.New("the host has no data directory, and so nothing that can be forked"))
	}
	if _, err := os.Stat(one.directory); !errors.Is(err, fs.ErrNotExist) {
		return err // it was made, but that could not be reported
	}
	source, err := l.planes.find(ctx, from.Name)
	if err != nil {
		return fmt.Errorf("control plane %q: %w", from.Name, err)
	}
	awake, err := source.acquire(ctx)
	if err != nil {
		return fmt.Errorf("control plane %q: %w", from.Name, err)
	}
	defer source.release()
	unfinished := one.directory + unfinishedSuffix
	if err := os.RemoveAll(unfinished); err != nil {
		return err
	}
	if status.Revision, err = awake.Fork(ctx, unfinished, from.moment(c.CreationTimestamp.Time)); err != nil {
		return fmt.Errorf("fork control plane %q: %w", from.Name, err)
	}
	return os.Rename(unfinished, one.directory)
}

// unfinishedSuffix is of the directory of a fork that is being made.
const unfinishedSuffix = ".unfinished"

// moment returns the moment, as one that does not depend on when it is looked at.
func (o *Origin) moment(made time.Time) string {
	if ago, err := time.ParseDuration(o.At); err == nil {
		return made.Add(-ago).Format(time.RFC3339Nano)
	}
	return o.At
}

// publish writes the Secret with the plane's kubeconfig. Of a plane that sleeps, which has its keys on the disk, the
// Secret has them as well: only the address of its host may be another one.
func (l *controlLoop) publish(ctx context.Context, c *ControlPlane, one *plane, status *Status) error {
	awake := one.awake()
	if awake != nil {
		defer one.release()
		status.Objects, status.Bytes = awake.Use(ctx)
	}
	status.Endpoint = l.planes.URL(c.Name)
	if status.Endpoint == "" {
		return nil
	}
	status.Kubeconfig = Namespace + "/" + SecretName(c.Name)
	secrets := l.clients.Kube.CoreV1().Secrets(Namespace)
	there, err := secrets.Get(ctx, SecretName(c.Name), metav1.GetOptions{})
	missing := apierrors.IsNotFound(err)
	switch {
	case missing && awake == nil: // it is written when the plane is awake
		return nil
	case err != nil && !missing:
		return err
	}
	wanted := secretOf(c, nil)
	if wanted.Data[SecretKey], err = l.kubeconfig(c.Name, awake, there); err != nil {
		return err
	}
	switch {
	case missing:
		_, err = secrets.Create(ctx, wanted, metav1.CreateOptions{FieldManager: Program})
	case !metav1.IsControlledBy(there, c) || !bytes.Equal(there.Data[SecretKey], wanted.Data[SecretKey]):
		wanted.ResourceVersion = there.ResourceVersion
		_, err = secrets.Update(ctx, wanted, metav1.UpdateOptions{FieldManager: Program})
	}
	if err != nil {
		return fmt.Errorf("write the kubeconfig: %w", err)
	}
	return nil
}

// kubeconfig returns the one of a plane's administrator, with the keys of the plane, or those of its Secret if it sleeps.
func (l *controlLoop) kubeconfig(name string, awake Cluster, there *corev1.Secret) ([]byte, error) {
	_, authorities := l.planes.o.Host()
	user := "admin@" + name
	config := clientcmdapi.NewConfig()
	if awake == nil {
		var err error
		if config, err = clientcmd.Load(there.Data[SecretKey]); err != nil {
			return nil, fmt.Errorf("the kubeconfig in the Secret: %w", err)
		}
	} else {
		certificate, key := awake.Administrator()
		config.AuthInfos[user] = &clientcmdapi.AuthInfo{ClientCertificateData: certificate, ClientKeyData: key}
	}
	config.Clusters[name] = &clientcmdapi.Cluster{Server: l.planes.URL(name), CertificateAuthorityData: authorities}
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: user}
	config.CurrentContext = name
	return clientcmd.Write(*config)
}

func secretOf(c *ControlPlane, text []byte) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: Namespace, Name: SecretName(c.Name), Labels: map[string]string{Group + "/name": c.Name},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(c, GVK)},
		},
		Type: "cluster.x-k8s.io/secret", Data: map[string][]byte{SecretKey: text},
	}
}

// report writes the status, if it has changed.
func (l *controlLoop) report(ctx context.Context, c *ControlPlane, one *plane, status Status, failure error) error {
	phase, due, failed := one.phase()
	status.Phase, status.WakesAt = phase, nil
	if failure == nil {
		failure = failed
	}
	if failure != nil && phase != Awake {
		status.Phase = Failed
	}
	if !due.IsZero() {
		status.WakesAt = &metav1.Time{Time: due.Truncate(time.Second)}
	}
	status.Conditions = append([]metav1.Condition(nil), status.Conditions...)
	meta.SetStatusCondition(&status.Conditions, ready(c, status.Phase, failure))
	if reflect.DeepEqual(status, c.Status) {
		return nil
	}
	changed := c.DeepCopyObject().(*ControlPlane)
	changed.Status = status
	_, err := l.writer.UpdateStatus(ctx, changed)
	return err
}

// ready returns the condition of that name. A plane that sleeps is ready: it answers.
func ready(c *ControlPlane, phase string, failure error) metav1.Condition {
	out := metav1.Condition{Type: "Ready", Status: metav1.ConditionTrue, Reason: phase, ObservedGeneration: c.Generation}
	if failure != nil {
		out.Status, out.Reason, out.Message = metav1.ConditionFalse, Failed, failure.Error()
	}
	return out
}
