//! How the API server admits: the flags of kube-apiserver.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::Args;
use outrank_admission::configuration;
use outrank_admission::plugin_names::PluginFlags;
use outrank_rehearse::scenario::AdmissionOptions;

use crate::tell;

/// Flags of kube-apiserver that say how pods are admitted.
#[derive(Args)]
#[command(next_help_heading = "Admission, as kube-apiserver calls it")]
pub(crate) struct AdmissionArguments {
    /// An AdmissionConfiguration. Of the plugins that it configures ResourceQuota counts: its
    /// limitedResources may not be used where no quota covers them.
    #[arg(long, value_name = "FILE")]
    admission_control_config_file: Option<PathBuf>,

    /// Admission plugins that run beside those that run anyway.
    #[arg(long, value_name = "PLUGIN,...", value_delimiter = ',')]
    enable_admission_plugins: Option<Vec<String>>,

    /// Admission plugins that do not run, though they would.
    #[arg(long, value_name = "PLUGIN,...", value_delimiter = ',')]
    disable_admission_plugins: Option<Vec<String>>,

    /// All admission plugins that run: the old flag, which goes with neither of the others.
    #[arg(long, value_name = "PLUGIN,...", value_delimiter = ',')]
    admission_control: Option<Vec<String>>,
}

impl AdmissionArguments {
    /// Which plugins run.
    pub(crate) fn flags(&self) -> PluginFlags {
        PluginFlags {
            enable: self.enable_admission_plugins.clone(),
            disable: self.disable_admission_plugins.clone(),
            admission_control: self.admission_control.clone(),
        }
    }

    /// What the flags say; warnings are told and counted.
    pub(crate) fn read(&self, warnings: &mut usize) -> Result<AdmissionOptions> {
        let plugins = match self.flags().plugins() {
            Ok(plugins) => plugins,
            Err(errors) => bail!("{}", errors.join("\n")),
        };
        let mut options = AdmissionOptions {
            plugins,
            ..AdmissionOptions::default()
        };
        if let Some(path) = &self.admission_control_config_file {
            let name = path.display();
            let bytes = std::fs::read(path).with_context(|| format!("{name}"))?;
            let folder = path.parent().map(PathBuf::from).unwrap_or_default();
            let mut read = |relative: &str| {
                let path = folder.join(relative);
                std::fs::read(&path).map_err(|error| error.to_string())
            };
            let read = configuration::read(&bytes, &mut read);
            let configurations = match read {
                Ok(configurations) => configurations,
                Err(problems) => {
                    let lines = problems.iter().map(|problem| format!("{name}: {problem}"));
                    bail!("{}", lines.collect::<Vec<_>>().join("\n"));
                }
            };
            for warning in &configurations.warnings {
                *warnings += 1;
                tell(&format!("{name}: warning: {warning}"));
            }
            options.limited_resources = configurations.limited_resources;
        }
        Ok(options)
    }
}
