package kubelet

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/millrace/millrace/kubelet/container"
	"github.com/millrace/millrace/kubelet/logs"
	"github.com/millrace/millrace/kubelet/pressure"
	"github.com/millrace/millrace/kubelet/server"
	"github.com/millrace/millrace/kubelet/worker"
	"github.com/millrace/millrace/loop"
)

// Runtime runs the pods of a node. Package cri has one for runtimes that speak CRI, and package runtimetest one for tests.
type Runtime interface {
	container.Runtime
	container.Images
	container.Status
	container.Keeper
	container.Meter
	container.Streamer
	Close() error
}

// Options say what a kubelet runs, and where. Socket or Runtime is needed; everything else has a default.
type Options struct {
	// Clients reach the API server. Nil makes a kubelet that stands alone.
	Clients *loop.Clients
	// Name is the node's: the machine's name by default.
	Name string
	// Socket is where a container runtime is that speaks CRI. Runtime is one that is there already, instead.
	Socket  string
	Runtime Runtime
	// Root is where volumes are kept: /var/lib/millrace/kubelet by default; Logs where logs are: "pods" below it.
	Root, Logs string
	// Manifests is a file or folder of static pods, ManifestURL a place to ask for some, with ManifestHeader.
	Manifests      string
	ManifestURL    string
	ManifestHeader http.Header
	// SourceEvery is how often files and the URL are read: 20 s by default.
	SourceEvery time.Duration
	// Addresses are the node's: the machine's first by default.
	Addresses []string
	Labels    map[string]string
	Taints    []corev1.Taint
	// Capacity replaces what the machine has; Reserved is not for pods.
	Capacity, Reserved        corev1.ResourceList
	ClusterDNS                []string
	ClusterDomain             string
	CgroupParent              string
	LeaseEvery, StatusEvery   time.Duration
	Backoff                   worker.Backoff
	Rotation                  logs.Rotation
	ImageHighUse, ImageLowUse int // in percent of the disk: 85 and 80
	// ImageRest is how long an image is left alone after it was seen first, since its pod may not have started yet: 2
	// minutes by default.
	ImageRest time.Duration
	// Eviction says below what left pods are evicted: nil means pressure.Default.
	Eviction pressure.Thresholds
	// PressureHolds is how long a node says that it is short of something after it was: 5 minutes by default.
	PressureHolds time.Duration
	// Server says how the API server reaches this node: on port 10250 by default.
	Server server.Access
	Logger *slog.Logger
}

func (o *Options) setDefaults() error {
	if o.Runtime == nil && o.Socket == "" {
		return errors.New("the socket of a container runtime is needed, such as unix:///run/containerd/containerd.sock")
	}
	o.Socket = strings.TrimPrefix(o.Socket, "cri:")
	if o.Name == "" {
		name, err := os.Hostname()
		if err != nil {
			return fmt.Errorf("find the node's name: %w", err)
		}
		o.Name = strings.ToLower(name)
	}
	o.Root = cmp.Or(o.Root, "/var/lib/millrace/kubelet")
	root, err := filepath.Abs(o.Root)
	if err != nil {
		return err
	}
	o.Root = root
	o.Logs = cmp.Or(o.Logs, filepath.Join(root, "logs"))
	o.Server.Listen = cmp.Or(o.Server.Listen, ":10250")
	o.ImageHighUse, o.ImageLowUse = cmp.Or(o.ImageHighUse, 85), cmp.Or(o.ImageLowUse, 80)
	o.ImageRest, o.PressureHolds = cmp.Or(o.ImageRest, 2*time.Minute), cmp.Or(o.PressureHolds, 5*time.Minute)
	if o.Eviction == nil {
		o.Eviction = pressure.Default()
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if len(o.Addresses) == 0 {
		o.Addresses = []string{OwnAddress()}
	}
	return nil
}
