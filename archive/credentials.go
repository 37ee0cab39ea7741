package archive

// credentialPlaces are paths of files and directories, at any depth, in which a program keeps its
// credentials, in lower case. A scan cannot find the values in many of these files, because the values
// have no form: a password file may contain a single word. The comment of a place is its source.
var credentialPlaces = []string{
	// Packages and builds.
	".cargo/credentials.toml",    // https://doc.rust-lang.org/cargo/reference/config.html#credentials
	".cargo/credentials",         // https://doc.rust-lang.org/cargo/reference/config.html#credentials
	".m2/settings.xml",           // https://maven.apache.org/settings.html
	".m2/settings-security.xml",  // https://maven.apache.org/guides/mini/guide-encryption.html
	".gradle/gradle.properties",  // https://docs.gradle.org/current/userguide/build_environment.html
	".nuget/nuget/nuget.config",  // https://learn.microsoft.com/nuget/consume-packages/configuring-nuget-behavior
	".gem/credentials",           // https://guides.rubygems.org/command-reference/#gem-signin
	".bundle/config",             // https://bundler.io/man/bundle-config.1.html
	".composer/auth.json",        // https://getcomposer.org/doc/articles/authentication-for-private-packages.md
	".config/composer/auth.json", // https://getcomposer.org/doc/articles/authentication-for-private-packages.md
	".hex/hex.config",            // https://hexdocs.pm/hex/Mix.Tasks.Hex.Config.html
	".circleci/cli.yml",          // https://circleci.com/docs/local-cli/
	".config/glab-cli",           // https://gitlab.com/gitlab-org/cli
	".config/hub",                // https://hub.github.com/hub.1.html
	".config/git/credentials",    // https://git-scm.com/docs/git-credential-store
	".subversion/auth",           // https://svnbook.red-bean.com/en/1.7/svn.serverconfig.netmodel.html

	// Clouds and deployment.
	".terraformrc",             // https://developer.hashicorp.com/terraform/cli/config/config-file
	"terraform.rc",             // https://developer.hashicorp.com/terraform/cli/config/config-file
	"credentials.tfrc.json",    // https://developer.hashicorp.com/terraform/cli/config/config-file
	".pulumi/credentials.json", // https://www.pulumi.com/docs/iac/cli/
	".vault_pass",              // https://docs.ansible.com/ansible/latest/vault_guide/vault_managing_passwords.html
	".vault_pass.txt",          // https://docs.ansible.com/ansible/latest/vault_guide/vault_managing_passwords.html
	".vault_password",          // https://docs.ansible.com/ansible/latest/vault_guide/vault_managing_passwords.html
	"vault_pass.txt",           // https://docs.ansible.com/ansible/latest/vault_guide/vault_managing_passwords.html
	".oci",                     // https://docs.oracle.com/iaas/Content/API/Concepts/sdkconfig.htm
	".config/doctl",            // https://docs.digitalocean.com/reference/doctl/
	".config/hcloud",           // https://github.com/hetznercloud/cli
	".config/rclone",           // https://rclone.org/docs/#config-file
	"rclone.conf",              // https://rclone.org/docs/#config-file
	".fly/config.yml",          // https://fly.io/docs/flyctl/
	".wrangler/config",         // https://developers.cloudflare.com/workers/wrangler/
	".cloudflared",             // https://developers.cloudflare.com/cloudflare-one/connections/connect-networks/
	".config/ngrok",            // https://ngrok.com/docs/agent/config/
	".passwd-s3fs",             // https://github.com/s3fs-fuse/s3fs-fuse

	// Applications.
	"secrets.yml",              // https://guides.rubyonrails.org/v5.1/security.html#custom-credentials
	"secrets.yaml",             // https://www.home-assistant.io/docs/configuration/secrets/
	"secrets.json",             // https://learn.microsoft.com/aspnet/core/security/app-secrets
	"secrets.toml",             // https://docs.streamlit.io/develop/api-reference/connections/secrets.toml
	".sentryclirc",             // https://docs.sentry.io/cli/configuration/
	".config/stripe",           // https://docs.stripe.com/stripe-cli
	".config/op",               // https://developer.1password.com/docs/cli/config-directories/
	".password-store",          // https://www.passwordstore.org/
	".kaggle",                  // https://www.kaggle.com/docs/api
	"kaggle.json",              // https://www.kaggle.com/docs/api
	".huggingface/token",       // https://huggingface.co/docs/huggingface_hub/package_reference/environment_variables
	".cache/huggingface/token", // https://huggingface.co/docs/huggingface_hub/package_reference/environment_variables

	// Databases, mail and shares.
	".databrickscfg",    // https://docs.databricks.com/aws/en/dev-tools/auth/config-profiles
	".snowflake",        // https://docs.snowflake.com/en/developer-guide/snowflake-cli/connecting/configure-connections
	".snowsql",          // https://docs.snowflake.com/en/user-guide/snowsql-config
	".dbt/profiles.yml", // https://docs.getdbt.com/docs/core/connect-data-platform/profiles.yml
	".mylogin.cnf",      // https://dev.mysql.com/doc/refman/8.4/en/mysql-config-editor.html
	".msmtprc",          // https://marlam.de/msmtp/msmtp.html
	".fetchmailrc",      // https://www.fetchmail.info/fetchmail-man.html
	".smbcredentials",   // man 8 mount.cifs
}
