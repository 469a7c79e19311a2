package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"quarry.dev/quarry/api/v1alpha1"
	"quarry.dev/quarry/controllers/corpus"
	"quarry.dev/quarry/controllers/evalrun"
	"quarry.dev/quarry/controllers/index"
	"quarry.dev/quarry/controllers/objectstore"
	"quarry.dev/quarry/controllers/pipeline"
)

type operatorFlags struct {
	image          string
	metricsAddress string
	healthAddress  string
	leaderElection bool
	namespace      string
}

func newOperatorCommand() *cobra.Command {
	var flags operatorFlags
	cmd := &cobra.Command{
		Use:   "operator",
		Short: "Run the controllers",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if flags.image == "" {
				return fmt.Errorf("--image is empty: name the image that Jobs and serving pods run, which is the operator's own")
			}
			ctrl.SetLogger(zap.New())
			mgr, err := newManager(flags)
			if err != nil {
				return err
			}
			return mgr.Start(ctrl.SetupSignalHandler())
		},
	}
	cmd.Flags().StringVar(&flags.image, "image", "", "image of Jobs and serving pods: the operator's own")
	cmd.Flags().StringVar(&flags.metricsAddress, "metrics-address", ":8080", "where /metrics is served; 0 for nowhere")
	cmd.Flags().StringVar(&flags.healthAddress, "health-address", ":8081", "where /healthz and /readyz are served")
	cmd.Flags().BoolVar(&flags.leaderElection, "leader-election", true, "let one of several replicas act")
	cmd.Flags().StringVar(&flags.namespace, "namespace", "", "namespace to watch; empty for all")
	return cmd
}

// newManager wires the controllers. Secrets are read past the cache: the operator watches and holds none.
func newManager(flags operatorFlags) (ctrl.Manager, error) {
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(v1alpha1.AddToScheme(scheme))
	options := ctrl.Options{
		Scheme:                        scheme,
		Metrics:                       server.Options{BindAddress: flags.metricsAddress},
		HealthProbeBindAddress:        flags.healthAddress,
		LeaderElection:                flags.leaderElection,
		LeaderElectionID:              "quarry.quarry.dev",
		LeaderElectionReleaseOnCancel: true,
		Client:                        client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&corev1.Secret{}}}},
		Controller:                    config.Controller{ReconciliationTimeout: time.Minute},
	}
	if flags.namespace != "" {
		options.Cache.DefaultNamespaces = map[string]cache.Config{flags.namespace: {}}
	}
	restConfig, err := ctrl.GetConfig()
	if err != nil {
		return nil, fmt.Errorf("find a cluster: %w", err)
	}
	mgr, err := ctrl.NewManager(restConfig, options)
	if err != nil {
		return nil, err
	}
	if err := setupControllers(mgr, flags.image); err != nil {
		return nil, err
	}
	if err := mgr.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return nil, err
	}
	return mgr, mgr.AddReadyzCheck("ping", healthz.Ping)
}

func setupControllers(mgr ctrl.Manager, image string) error {
	c, recorder := mgr.GetClient(), mgr.GetEventRecorder("quarry")
	buckets := objectstore.New(mgr.GetAPIReader())
	for _, reconciler := range []interface{ SetupWithManager(ctrl.Manager) error }{
		&corpus.Reconciler{Client: c, APIReader: mgr.GetAPIReader(), Buckets: buckets, Recorder: recorder, Now: time.Now},
		&index.Reconciler{Client: c, Buckets: buckets, Recorder: recorder, Now: time.Now},
		&pipeline.Reconciler{Client: c, Buckets: buckets, Recorder: recorder, Image: image, Now: time.Now},
		&evalrun.Reconciler{Client: c, Buckets: buckets, Now: time.Now},
	} {
		if err := reconciler.SetupWithManager(mgr); err != nil {
			return err
		}
	}
	return nil
}
