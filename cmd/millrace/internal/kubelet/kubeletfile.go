package kubelet

import (
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/millrace/millrace/cmd/millrace/internal/flags"
	"github.com/millrace/millrace/internal/features"
	"github.com/millrace/millrace/internal/kubelet/config"
)

// inFile is what no flag says, only the kubelet's file.
type inFile struct {
	file         *config.File // nil without a file
	podLogs      string
	lease        time.Duration // how long the node's lease is valid
	restartAfter time.Duration // the longest delay before a crashed container is restarted
}

// read reads --config and --config-dir, and takes from them what no flag says.
func (f *Flags) read(fl *pflag.FlagSet) error {
	if f.file == "" && f.dropIns == "" {
		return nil
	}
	file, err := config.Load(f.file, f.dropIns)
	if err != nil {
		return fmt.Errorf("--config: %w", err)
	}
	said := features.Set{}
	for gate, on := range file.FeatureGates {
		if err := said.Put(gate, on); err != nil {
			return fmt.Errorf("--config: featureGates: %w", err)
		}
	}
	maps.Copy(said, f.gates.Said)
	f.gates.Said = said
	f.inFile = inFile{file: file, podLogs: file.PodLogsDir, lease: time.Duration(file.NodeLeaseDurationSeconds) * time.Second}
	if d := file.CrashLoopBackOff.MaxContainerRestartPeriod; d != nil {
		f.inFile.restartAfter = d.Duration
	}
	take := taking{fl}
	f.takeServing(take, file)
	f.takeNode(take, file)
	return f.takePods(take, file)
}

// taking sets values of flags that the command line does not have. Empty values of a file are its missing fields.
type taking struct{ fl *pflag.FlagSet }

func take[T comparable](t taking, flag string, to *T, value T) {
	var missing T
	if !t.fl.Changed(flag) && value != missing {
		*to = value
	}
}

// takePointer is take for fields whose empty values mean something.
func takePointer[T, V ~int | ~int32 | ~bool](t taking, flag string, to *T, value *V, as func(V) T) {
	if !t.fl.Changed(flag) && value != nil {
		*to = as(*value)
	}
}

func takeAll[T any](t taking, flag string, to *[]T, values []T) {
	if !t.fl.Changed(flag) && len(values) > 0 {
		*to = values
	}
}

func (f *Flags) takeServing(t taking, file *config.File) {
	number := func(n int32) int { return int(n) }
	take(t, "address", &f.address, file.Address)
	take(t, "port", &f.port, int(file.Port))
	takePointer(t, "healthz-port", &f.healthPort, file.HealthzPort, number)
	take(t, "healthz-bind-address", &f.healthAddress, file.HealthzBindAddress)
	take(t, "client-ca-file", &f.clientCA, file.Authentication.X509.ClientCAFile)
	f.policy.take(t, file)
	take(t, "tls-cert-file", &f.certFile, file.TLSCertFile)
	take(t, "tls-private-key-file", &f.keyFile, file.TLSPrivateKeyFile)
	take(t, "tls-min-version", &f.tls.MinVersion, file.TLSMinVersion)
	takeAll(t, "tls-cipher-suites", &f.tls.Suites, file.TLSCipherSuites)
	f.tls.Curves = file.TLSCurvePreferences
	take(t, "rotate-certificates", &f.joining.rotate, file.RotateCertificates)
	take(t, "rotate-server-certificates", &f.joining.rotateServing, file.ServerTLSBootstrap)
	if q := file.KubeAPIQPS; q != nil {
		take(t, "kube-api-qps", &f.Pace.PerSecond, float32(*q))
	}
	take(t, "kube-api-burst", &f.Pace.Burst, int(file.KubeAPIBurst))
	take(t, "kube-api-content-type", &f.Pace.ContentType, file.ContentType)
	take(t, "v", &f.Log.Verbosity, int(file.Logging.Verbosity))
	take(t, "logging-format", &f.Log.Format, file.Logging.Format)
}

func (f *Flags) takeNode(t taking, file *config.File) {
	itself := func(b bool) bool { return b }
	takePointer(t, "register-node", &f.register, file.RegisterNode, itself)
	take(t, "provider-id", &f.providerID, file.ProviderID)
	var taints []string
	for _, taint := range file.RegisterWithTaints {
		taints = append(taints, taint.Key+"="+taint.Value+":"+string(taint.Effect))
	}
	takeAll(t, "register-with-taints", &f.taints, taints)
	take(t, "node-status-update-frequency", &f.statusEvery, file.NodeStatusUpdateFrequency.Duration)
	take(t, "node-status-update-frequency", &f.statusEvery, file.NodeStatusReportFrequency.Duration)
	take(t, "max-pods", &f.maxPods, int(file.MaxPods))
	take(t, "pods-per-core", &f.podsPerCore, int(file.PodsPerCore))
	if n := file.NodeStatusMaxImages; n != nil {
		take(t, "node-status-max-images", &f.statusImages, int(*n))
	}
	takePointer(t, "enable-debugging-handlers", &f.debugging, file.EnableDebuggingHandlers, itself)
	for flag, one := range map[string]struct{ to, from *map[string]string }{
		"system-reserved": {&f.reserved, &file.SystemReserved}, "kube-reserved": {&f.kubeReserved, &file.KubeReserved},
	} {
		if !t.fl.Changed(flag) && len(*one.from) > 0 {
			*one.to = *one.from
		}
	}
	take(t, "minimum-image-ttl-duration", &f.imageRest, file.ImageMinimumGCAge.Duration)
	number := func(n int32) int { return int(n) }
	takePointer(t, "image-gc-high-threshold", &f.imageHigh, file.ImageGCHighThresholdPercent, number)
	takePointer(t, "image-gc-low-threshold", &f.imageLow, file.ImageGCLowThresholdPercent, number)
	f.eviction.take(t, file)
	f.limits.take(t, file)
}

func (f *Flags) takePods(t taking, file *config.File) error {
	take(t, "container-runtime-endpoint", &f.runtime, file.ContainerRuntimeEndpoint)
	take(t, "pod-manifest-path", &f.manifests, file.StaticPodPath)
	take(t, "manifest-url", &f.manifestURL, file.StaticPodURL)
	if !t.fl.Changed("manifest-url-header") && len(file.StaticPodURLHeader) > 0 {
		f.manifestHeaders = headers{}
		for name, values := range file.StaticPodURLHeader {
			f.manifestHeaders[http.CanonicalHeaderKey(name)] = values
		}
	}
	take(t, "file-check-frequency", &f.fileEvery, file.FileCheckFrequency.Duration)
	take(t, "http-check-frequency", &f.urlEvery, file.HTTPCheckFrequency.Duration)
	takeAll(t, "cluster-dns", &f.dns, file.ClusterDNS)
	take(t, "cluster-domain", &f.domain, file.ClusterDomain)
	take(t, "cgroup-root", &f.cgroupRoot, file.CgroupRoot)
	itself := func(b bool) bool { return b }
	takePointer(t, "seccomp-default", &f.seccompDefault, file.SeccompDefault, itself)
	takePointer(t, "cpu-cfs-quota", &f.cpuQuota, file.CPUCFSQuota, itself)
	if path := file.ResolverConfig; path != nil {
		take(t, "resolv-conf", &f.resolver, *path)
	}
	take(t, "container-log-max-size", &f.logSize, file.ContainerLogMaxSize)
	number := func(n int32) int { return int(n) }
	takePointer(t, "container-log-max-files", &f.logFiles, file.ContainerLogMaxFiles, number)
	takePointer(t, "serialize-image-pulls", &f.serialPulls, file.SerializeImagePulls, func(b bool) bool { return b })
	if n := file.MaxParallelImagePulls; n != nil {
		if f.serialPulls && *n > 1 {
			return fmt.Errorf("--config: invalid configuration: maxParallelImagePulls %v must not be larger than 1 if serializeImagePulls is true", *n)
		}
		f.pulls = int(*n)
	}
	return nil
}

// warn names the flags, and the fields of the file, that have no effect.
func (f *Flags) warn(fl *pflag.FlagSet, log *slog.Logger) error {
	flags.UnusedByKubelet.Warn(fl, "the kubelet", log)
	f.gates.Warn(log)
	if f.inFile.file == nil {
		return nil
	}
	ignored, err := config.Ignored(f.inFile.file)
	if err == nil && len(ignored) > 0 {
		log.Warn("fields of the configuration have no effect", "fields", ignored)
	}
	return err
}

// headers is the value of --manifest-url-header: name:value, separated by commas.
type headers http.Header

// Set implements pflag.Value.
func (h *headers) Set(text string) error {
	if *h == nil {
		*h = headers{}
	}
	for _, word := range strings.Split(text, ",") {
		if word == "" {
			continue
		}
		name, value, ok := strings.Cut(word, ":")
		if !ok {
			return fmt.Errorf("malformed pair, expect string:string: %q", word)
		}
		http.Header(*h).Add(strings.TrimSpace(name), value)
	}
	return nil
}

// String implements pflag.Value.
func (h *headers) String() string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(*h)) {
		for _, value := range (*h)[name] {
			all = append(all, name+":"+value)
		}
	}
	return strings.Join(all, ",")
}

// Type implements pflag.Value.
func (h *headers) Type() string { return "colonSeparatedMultimapStringString" }
