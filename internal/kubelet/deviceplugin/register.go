package deviceplugin

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/millrace/millrace/internal/kubelet/plugins"
)

// registrar answers plugins that register at the kubelet's socket.
type registrar struct {
	api.UnimplementedRegistrationServer
	plugins *Plugins
}

// Register takes a plugin.
func (r registrar) Register(_ context.Context, request *api.RegisterRequest) (*api.Empty, error) {
	r.plugins.metrics.registered(request.GetResourceName())
	if err := versionOf(request.GetVersion()); err != nil {
		return nil, err
	}
	if err := check(request.GetResourceName()); err != nil {
		return nil, err
	}
	if name := request.GetEndpoint(); name == "" || name != filepath.Base(name) {
		return nil, fmt.Errorf("the endpoint %q is not the name of a socket", name)
	}
	return &api.Empty{}, r.plugins.connect(corev1.ResourceName(request.ResourceName), filepath.Join(r.plugins.Directory, request.Endpoint), request.GetOptions())
}

func versionOf(versions ...string) error {
	if slices.ContainsFunc(versions, func(v string) bool { return slices.Contains(api.SupportedVersions[:], v) }) {
		return nil
	}
	return fmt.Errorf("requested API version %q is not supported by kubelet. Supported version is %q", strings.Join(versions, ","), api.SupportedVersions)
}

// check reports whether a name is that of an extended resource.
func check(name string) error {
	domain, _, ok := strings.Cut(name, "/")
	switch {
	case !ok, domain == "kubernetes.io", strings.HasSuffix(domain, ".kubernetes.io"), strings.HasPrefix(name, "requests."),
		len(validation.IsQualifiedName("requests."+name)) > 0:
		return fmt.Errorf("the ResourceName %q is invalid", name)
	}
	return nil
}

// Accept takes a plugin that registers as plugins of other types do.
func (p *Plugins) Accept(ctx context.Context, x plugins.Plugin) error {
	p.metrics.registered(x.Name)
	if err := versionOf(x.Versions...); err != nil {
		return err
	}
	if err := check(x.Name); err != nil {
		return err
	}
	c, err := plugins.Dial(x.Endpoint)
	if err != nil {
		return err
	}
	defer c.Close()
	options, err := api.NewDevicePluginClient(c).GetDevicePluginOptions(ctx, &api.Empty{})
	if err != nil {
		return fmt.Errorf("failed to get device plugin options: %w", err)
	}
	return p.connect(corev1.ResourceName(x.Name), x.Endpoint, options)
}

// Drop ends the connection to a plugin whose socket has gone.
func (p *Plugins) Drop(_ context.Context, x plugins.Plugin) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if k := p.kinds[corev1.ResourceName(x.Name)]; k != nil && k.plugin != nil && k.plugin.socket == x.Endpoint {
		k.plugin.connection.Close()
	}
}

// Close does nothing: connections end with Run.
func (p *Plugins) Close() {}
