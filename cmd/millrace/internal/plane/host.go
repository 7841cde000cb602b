package plane

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"text/tabwriter"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/millrace/millrace/cmd/millrace/internal/serving"
	"github.com/millrace/millrace/internal/planes"
	"github.com/millrace/millrace/internal/sleep"
)

// host is the cluster that runs the planes.
type host struct {
	config *rest.Config
	kube   kubernetes.Interface
	planes dynamic.ResourceInterface
}

func connect(f *genericclioptions.ConfigFlags) (*host, error) {
	serving.UseOwnKubeconfig(f)
	config, err := f.ToRESTConfig()
	if err != nil {
		return nil, err
	}
	config.QPS = -1
	h := &host{config: config}
	if h.kube, err = kubernetes.NewForConfig(config); err != nil {
		return nil, err
	}
	all, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	h.planes = all.Resource(planes.GVR)
	return h, nil
}

// explain returns an error that says more than that a path is not there.
func (h *host) explain(err error, name string) error {
	switch {
	case meta.IsNoMatchError(err), apierrors.IsNotFound(err) && apierrors.ReasonForError(err) == metav1.StatusReasonNotFound && notServed(err):
		return fmt.Errorf("the server at %s runs no control planes: start it with --planes", h.config.Host)
	case apierrors.IsNotFound(err):
		return fmt.Errorf("there is no control plane %q", name)
	case apierrors.IsAlreadyExists(err):
		return fmt.Errorf("there is a control plane %q already", name)
	}
	return err
}

// notServed reports whether a kind is not known, rather than an object.
func notServed(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && (status.Status().Details == nil || status.Status().Details.Name == "")
}

func (h *host) create(ctx context.Context, name string, spec map[string]any) error {
	o := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": planes.GVK.GroupVersion().String(), "kind": planes.Kind, "metadata": map[string]any{"name": name}, "spec": spec,
	}}
	_, err := h.planes.Create(ctx, o, metav1.CreateOptions{FieldManager: "millrace"})
	return h.explain(err, name)
}

// get returns a plane's object.
func (h *host) get(ctx context.Context, name string) (*planes.ControlPlane, error) {
	o, err := h.planes.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, h.explain(err, name)
	}
	c := &planes.ControlPlane{}
	return c, runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, c)
}

// lookEvery is how often an object is looked at that will be another soon.
const lookEvery = 5 * time.Millisecond

// until waits until a plane is as wanted. A message of the plane that it cannot be is an error.
func (h *host) until(ctx context.Context, name string, is func(*planes.ControlPlane) bool) error {
	for {
		c, err := h.get(ctx, name)
		if err != nil {
			return err
		}
		ready := meta.FindStatusCondition(c.Status.Conditions, "Ready")
		switch {
		case is(c):
			return nil
		case ready != nil && ready.Status == metav1.ConditionFalse && ready.ObservedGeneration == c.Generation:
			return errors.New(ready.Message)
		}
		if !sleep.For(ctx, lookEvery) {
			return context.Cause(ctx)
		}
	}
}

func (h *host) ready(ctx context.Context, name string) error {
	return h.until(ctx, name, func(c *planes.ControlPlane) bool { return meta.IsStatusConditionTrue(c.Status.Conditions, "Ready") })
}

func (h *host) kubeconfig(ctx context.Context, name string) ([]byte, error) {
	if _, err := h.get(ctx, name); err != nil {
		return nil, err
	}
	s, err := h.kube.CoreV1().Secrets(planes.Namespace).Get(ctx, planes.SecretName(name), metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	return s.Data[planes.SecretKey], nil
}

func (h *host) sleep(ctx context.Context, name string) error {
	asked := time.Now().Format(time.RFC3339Nano)
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{planes.SleepAnnotation: asked}}})
	if err != nil {
		return err
	}
	if _, err := h.planes.Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: "millrace"}); err != nil {
		return h.explain(err, name)
	}
	return h.until(ctx, name, func(c *planes.ControlPlane) bool { return c.Status.Slept == asked })
}

// wake asks a plane for its version.
func (h *host) wake(ctx context.Context, name string) error {
	text, err := h.kubeconfig(ctx, name)
	if err != nil {
		return err
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(text)
	if err != nil {
		return err
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, config.Host+"/version", http.NoBody)
	if err != nil {
		return err
	}
	answer, err := client.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("it answers with %s", answer.Status)
	}
	return nil
}

// delete deletes a plane, and returns when it is gone.
func (h *host) delete(ctx context.Context, name string) error {
	if err := h.planes.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		return h.explain(err, name)
	}
	for {
		_, err := h.planes.Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil || !sleep.For(ctx, lookEvery) {
			return errors.Join(err, context.Cause(ctx))
		}
	}
}

func (h *host) list(ctx context.Context, out io.Writer) error {
	all, err := h.planes.List(ctx, metav1.ListOptions{})
	if err != nil {
		return h.explain(err, "")
	}
	if len(all.Items) == 0 {
		_, err := fmt.Fprintln(out, "There are no control planes: millrace plane create NAME")
		return err
	}
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(w, "NAME\tPHASE\tFROM\tOBJECTS\tON DISK\tAGE")
	for _, item := range all.Items {
		c := &planes.ControlPlane{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(item.Object, c); err != nil {
			return err
		}
		from := ""
		if c.Spec.From != nil {
			from = c.Spec.From.Name
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%.1f MiB\t%s\n", c.Name, c.Status.Phase, from, c.Status.Objects,
			float64(c.Status.Bytes)/(1<<20), duration.HumanDuration(time.Since(c.CreationTimestamp.Time)))
	}
	return w.Flush()
}
