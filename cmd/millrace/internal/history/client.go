package history

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"path"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/millrace/millrace/cmd/millrace/internal/serving"
)

// target is the cluster that a command asks, and an object in it.
type target struct {
	flags *genericclioptions.ConfigFlags
	rest  *rest.RESTClient
	live  dynamic.ResourceInterface
	// path is that of the object in the API, name its own, and title how people call it: TYPE/NAME.
	path, name, title string
}

// newFlags returns kubectl's flags for the cluster, the user and the namespace.
func newFlags(c *cobra.Command) *genericclioptions.ConfigFlags {
	f := genericclioptions.NewConfigFlags(true)
	f.AddFlags(c.Flags())
	return f
}

// connect makes a client that asks for paths.
func connect(f *genericclioptions.ConfigFlags) (*rest.RESTClient, error) {
	serving.UseOwnKubeconfig(f)
	config, err := f.ToRESTConfig()
	if err != nil {
		return nil, err
	}
	config.QPS = -1 // the server knows whose turn it is
	config.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	config.GroupVersion, config.APIPath = &schema.GroupVersion{Version: "v1"}, "/"
	return rest.RESTClientFor(config)
}

// find finds the object that TYPE/NAME or TYPE NAME names.
func find(f *genericclioptions.ConfigFlags, args []string) (*target, error) {
	kind, name, ok := strings.Cut(args[0], "/")
	switch {
	case len(args) == 2 && !ok:
		name = args[1]
	case len(args) != 1 || !ok || name == "":
		return nil, errors.New("name one object, as TYPE/NAME or TYPE NAME")
	}
	client, err := connect(f)
	if err != nil {
		return nil, err
	}
	mapper, err := f.ToRESTMapper()
	if err != nil {
		return nil, err
	}
	mapping, err := mappingOf(mapper, kind)
	if err != nil {
		return nil, err
	}
	namespace, _, err := f.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return nil, err
	}
	config, err := f.ToRESTConfig()
	if err != nil {
		return nil, err
	}
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	t := &target{flags: f, rest: client, path: pathOf(mapping, namespace, name), name: name, title: mapping.Resource.Resource + "/" + name}
	if t.live = objects.Resource(mapping.Resource); mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		t.live = objects.Resource(mapping.Resource).Namespace(namespace)
	}
	return t, nil
}

func mappingOf(mapper meta.RESTMapper, kind string) (*meta.RESTMapping, error) {
	full, group := schema.ParseResourceArg(strings.ToLower(kind))
	if full == nil {
		full = new(schema.GroupVersionResource)
		*full = group.WithVersion("")
	}
	gvk, err := mapper.KindFor(*full)
	if err != nil {
		return nil, fmt.Errorf("the server has no resource type %q: %w", kind, err)
	}
	return mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
}

func pathOf(m *meta.RESTMapping, namespace, name string) string {
	parts := []string{"/apis", m.Resource.Group, m.Resource.Version}
	if m.Resource.Group == "" {
		parts = []string{"/api", m.Resource.Version}
	}
	if m.Scope.Name() == meta.RESTScopeNameNamespace {
		parts = append(parts, "namespaces", namespace)
	}
	return path.Join(append(parts, m.Resource.Resource, name)...)
}

// get reads the JSON at a path.
func (t *target) get(ctx context.Context, path string, query url.Values, into any) error {
	r := t.rest.Get().AbsPath(path).SetHeader("Accept", "application/json")
	for name, values := range query {
		r = r.Param(name, values[0])
	}
	return read(ctx, r, into)
}

// read sends a request, and reads its answer. The error is what the server says.
func read(ctx context.Context, r *rest.Request, into any) error {
	answer := r.Do(ctx)
	if err := answer.Error(); err != nil { // Raw has an error without the server's words
		return err
	}
	b, err := answer.Raw()
	if err != nil {
		return err
	}
	return json.Unmarshal(b, into)
}
