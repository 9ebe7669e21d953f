//! What Rally's arguments become: values of the variables in our files, and changes of their steps.

use crate::nodes::{NodeFactory, as_number, as_text, meant_literally};
use crate::scenarios::{ExpandedScenario, ScenarioEnvironment};
use text::diagnostics::{Fault, SourceText};
use text::yaml::{self, YamlKey, YamlNode, YamlValue};

use super::lookup::{self, OpenStackResourceKind, ResourceIdSource};
use super::steps;

/// What becomes of an argument.
#[derive(Clone, Copy)]
pub(super) enum ArgumentMapping {
    /// The value of a variable.
    Variable(&'static str),
    /// The same; in Rally, `null` means something of its own.
    Given(&'static str),
    /// An entry of a variable that is a map.
    Entry(&'static str, &'static str),
    /// Entries of a variable that is a map.
    Entries(&'static str),
    /// The ids of a flavor and an image.
    Flavor,
    Image,
    /// The image's id as an entry of a variable.
    ImageIn(&'static str, &'static str),
    /// A size, or the bounds of a random one, as an entry of a variable.
    SizeIn(&'static str, &'static str),
    /// A parameter of the query.
    Query,
    /// The file that is uploaded.
    Upload,
    /// The shortest and the longest pause.
    PauseMin,
    PauseMax,
    /// Whether servers are deleted by force.
    Force,
    /// The networks of a server: given ones, or the context's in turn.
    Nics,
    AutoNic,
    /// The names of a server's security groups.
    SecurityGroups,
    /// The addresses of the first subnet, and how many there are.
    CidrStart,
    Subnets,
    /// A file with a workbook; the name of its workflow; a file with JSON.
    Workbook,
    Workflow,
    JsonFile(&'static str),
    /// Nothing, as in Rally.
    Nothing,
}

/// Where Rally's subnets begin.
const CIDR_START: &str = "10.2.0.0/24";
/// What has other names in Rally's Python than in Neutron.
const OF_NEUTRON: [(&str, &str); 4] = [
    ("router_external", "router:external"),
    ("provider_network_type", "provider:network_type"),
    ("provider_physical_network", "provider:physical_network"),
    ("provider_segmentation_id", "provider:segmentation_id"),
];

/// What the arguments of a scenario change.
pub(super) struct Changes {
    place: NodeFactory,
    /// Values, as a step `set` has them.
    variables: Vec<(String, YamlNode)>,
    /// Whether servers are deleted by force.
    pub(super) forces: bool,
    /// Whether `user_id` and `project_id` are set to the ids of the iteration's user.
    pub(super) is_user: bool,
    lookups: Vec<YamlNode>,
    query: Vec<(String, YamlNode)>,
    upload: Option<YamlNode>,
    /// In seconds.
    pause: Option<(f64, f64)>,
    cidr_start: Option<(String, NodeFactory)>,
    subnets: u32,
    has_nics: bool,
    takes_networks_in_turn: bool,
}

impl Changes {
    pub(super) fn new(place: NodeFactory, variables: Vec<(String, YamlNode)>) -> Self {
        Self {
            place,
            variables,
            forces: false,
            is_user: false,
            lookups: Vec::new(),
            query: Vec::new(),
            upload: None,
            pause: None,
            cidr_start: None,
            subnets: 1,
            has_nics: false,
            takes_networks_in_turn: false,
        }
    }

    /// Applies an argument; adds its faults.
    pub(super) fn apply(
        &mut self,
        becomes: ArgumentMapping,
        (name, node): (&str, &YamlNode),
        around: &ScenarioEnvironment<'_>,
        faults: &mut Vec<Fault>,
    ) {
        let number = as_number(node);
        match becomes {
            ArgumentMapping::Variable(variable) | ArgumentMapping::Given(variable) => {
                self.set(variable, meant_literally(node))
            }
            ArgumentMapping::Entry(variable, key) => self.set_entry(variable, key, meant_literally(node)),
            ArgumentMapping::Entries(variable) => self.set_entries(variable, node, faults),
            ArgumentMapping::Flavor | ArgumentMapping::Image | ArgumentMapping::ImageIn(..) => {
                self.set_id(becomes, node, around, faults)
            }
            ArgumentMapping::SizeIn(variable, key) => self.set_size((variable, key), node, faults),
            ArgumentMapping::Query => self.query.push((name.to_owned(), meant_literally(node))),
            ArgumentMapping::Upload => self.set_upload(node, around, faults),
            ArgumentMapping::PauseMin => {
                self.pause = Some((number.unwrap_or(0.0), self.pause.map_or(0.0, |pause| pause.1)))
            }
            ArgumentMapping::PauseMax => {
                self.pause = Some((self.pause.map_or(0.0, |pause| pause.0), number.unwrap_or(0.0)))
            }
            ArgumentMapping::Force => self.forces = matches!(node.kind, YamlValue::Bool(true)),
            ArgumentMapping::Nics => self.set_nics(node, faults),
            ArgumentMapping::AutoNic => {
                self.takes_networks_in_turn = matches!(node.kind, YamlValue::Bool(true))
            }
            ArgumentMapping::SecurityGroups => self.set_security_groups(node, faults),
            ArgumentMapping::CidrStart => {
                self.cidr_start = Some((as_text(node).unwrap_or_default(), NodeFactory::of(node)))
            }
            ArgumentMapping::Subnets => self.subnets = number.unwrap_or(1.0) as u32,
            ArgumentMapping::Workbook => self.set_workbook(node, around, faults),
            ArgumentMapping::Workflow => self.set("workflow", meant_literally(node)),
            ArgumentMapping::JsonFile(variable) => {
                if let Some(map) = read(node, around, faults) {
                    self.set(variable, meant_literally(&map));
                }
            }
            ArgumentMapping::Nothing => {}
        }
    }

    /// What depends on several arguments, and on what the workload's contexts make.
    pub(super) fn finish(&mut self, around: &ScenarioEnvironment<'_>, faults: &mut Vec<Fault>) {
        if self.has("cidrs") {
            self.set_cidrs(faults);
        }
        if self.has("server") && !self.has_nics && around.has_context("network") {
            let networks = "context.tenant.networks";
            let which = match self.takes_networks_in_turn {
                true => format!("iteration % ({networks} | length)"),
                false => "0".to_owned(),
            };
            let id = self.place.text(format!("{{{{ {networks}[{which}].id }}}}"));
            let list = self.place.list(vec![self.place.map([("uuid", id)])]);
            self.set_entry("server", "networks", list);
        }
        if let Some((min, max)) = self.pause.filter(|(min, max)| min > max) {
            let message = format!("`min_sleep` {min} is more than `max_sleep` {max}");
            faults.push(Fault::error(around.place.clone(), message).help("exchange them"));
        }
    }

    /// The steps of an iteration: the variables get their values, and the body follows.
    pub(super) fn into_steps(mut self, mut body: Vec<YamlNode>, expanded: &mut ExpandedScenario) {
        for (name, value) in &self.query {
            steps::add_query(&mut body, name, value);
        }
        if let Some(file) = &self.upload {
            steps::replace_file(&mut body, file);
        }
        if let Some((min, max)) = self.pause {
            let place = &self.place;
            let range = place.map([("min", place.seconds(min)), ("max", place.seconds(max))]);
            steps::replace_pause(&mut body, &range);
        }
        if self.is_user {
            self.set("user_id", self.place.text("{{ user.id }}"));
            self.set("project_id", self.place.text("{{ user.project_id }}"));
        }
        let lookups = std::mem::take(&mut self.lookups);
        expanded.setup.extend(lookups.into_iter().map(|step| (String::new(), vec![step])));
        let values: Vec<(&str, YamlNode)> =
            self.variables.iter().map(|(name, value)| (name.as_str(), value.clone())).collect();
        if !values.is_empty() {
            expanded.steps.push(self.place.map([("set", self.place.map(values))]));
        }
        expanded.steps.append(&mut body);
    }

    /// Leaves out a variable that nothing uses.
    pub(super) fn forget(&mut self, variable: &str) {
        self.variables.retain(|(name, _)| name != variable);
    }

    fn has(&self, variable: &str) -> bool {
        self.variables.iter().any(|(name, _)| name == variable)
    }

    fn set(&mut self, variable: &str, value: YamlNode) {
        match self.variables.iter_mut().find(|(name, _)| name == variable) {
            Some((_, known)) => *known = value,
            None => self.variables.push((variable.to_owned(), value)),
        }
    }

    fn set_entry(&mut self, variable: &str, key: &str, value: YamlNode) {
        if !self.has(variable) {
            self.set(variable, self.place.map([]));
        }
        let found = self.variables.iter_mut().find(|(name, _)| name == variable);
        if let Some((_, YamlNode { kind: YamlValue::Map(entries), .. })) = found {
            entries.retain(|(known, _)| known.name != key);
            entries.push((YamlKey { name: key.to_owned(), span: value.span.clone() }, value));
        }
    }

    fn set_entries(&mut self, variable: &str, node: &YamlNode, faults: &mut Vec<Fault>) {
        for (key, value) in node.entries() {
            // What the scenario itself decides.
            if matches!(key.name.as_str(), "name" | "network_id")
                || variable == "subnet" && matches!(key.name.as_str(), "cidr" | "ip_version" | "start_cidr")
            {
                let fault = Fault::error(key.span.clone(), format!("`{}` is not supported here", key.name));
                faults.push(fault.help("remove it: the scenario sets it itself"));
            }
            let renamed = OF_NEUTRON.iter().find(|(of_rally, _)| *of_rally == key.name);
            let name = renamed.map_or(key.name.as_str(), |(_, of_neutron)| of_neutron);
            self.set_entry(variable, name, meant_literally(value));
        }
    }

    fn set_id(
        &mut self,
        becomes: ArgumentMapping,
        node: &YamlNode,
        around: &ScenarioEnvironment<'_>,
        faults: &mut Vec<Fault>,
    ) {
        let thing = if matches!(becomes, ArgumentMapping::Flavor) {
            OpenStackResourceKind::Flavor
        } else {
            OpenStackResourceKind::Image
        };
        let Some(found) = lookup::find(thing, node, around, faults) else { return };
        let id = match found {
            ResourceIdSource::Id(node) => node,
            ResourceIdSource::Step(step, variable) => {
                self.lookups.push(*step);
                NodeFactory::of(node).text(format!("{{{{ {variable} }}}}"))
            }
        };
        match becomes {
            ArgumentMapping::ImageIn(variable, key) => self.set_entry(variable, key, id),
            _ => self.set(thing.variable(), id),
        }
    }

    fn set_size(&mut self, (variable, key): (&str, &str), node: &YamlNode, faults: &mut Vec<Fault>) {
        let bound = |name: &str| node.get(name).and_then(as_number).filter(|bound| *bound >= 1.0);
        let value = match (as_number(node), bound("min"), bound("max")) {
            (Some(size), ..) if size >= 1.0 => node.clone(),
            (None, Some(min), Some(max)) if min <= max => {
                NodeFactory::of(node).text(format!("{{{{ random_int({}, {}) }}}}", min as u64, max as u64))
            }
            _ => {
                let fault = Fault::error(node.span.clone(), format!("{} is not a size", node.describe()));
                faults.push(fault.help("write a number of GiB, or {min: 1, max: 5}"));
                return;
            }
        };
        self.set_entry(variable, key, value);
    }

    fn set_upload(&mut self, node: &YamlNode, around: &ScenarioEnvironment<'_>, faults: &mut Vec<Fault>) {
        let text = as_text(node).unwrap_or_default();
        let path = text.strip_prefix("file://").unwrap_or(&text);
        if path.contains("://") {
            let fault = Fault::error(node.span.clone(), "an image that is elsewhere is not supported");
            faults.push(fault.help("download it before, and name the file"));
        }
        self.upload = Some(NodeFactory::of(node).text((around.files.find)(path)));
    }

    fn set_nics(&mut self, node: &YamlNode, faults: &mut Vec<Fault>) {
        const KEYS: [(&str, &str); 3] =
            [("net-id", "uuid"), ("port-id", "port"), ("v4-fixed-ip", "fixed_ip")];
        self.has_nics = true;
        let mut networks = Vec::new();
        for nic in node.items() {
            let mut entries = Vec::new();
            for (key, value) in nic.entries() {
                match KEYS.iter().find(|(of_rally, _)| *of_rally == key.name) {
                    Some((_, of_nova)) => entries.push((*of_nova, meant_literally(value))),
                    None => {
                        let message = format!("`{}` of a network card is not supported", key.name);
                        let fault = Fault::error(key.span.clone(), message);
                        faults.push(fault.help("write net-id, port-id or v4-fixed-ip"));
                    }
                }
            }
            networks.push(NodeFactory::of(nic).map(entries));
        }
        self.set_entry("server", "networks", NodeFactory::of(node).list(networks));
    }

    fn set_security_groups(&mut self, node: &YamlNode, faults: &mut Vec<Fault>) {
        let mut groups = Vec::new();
        for item in node.items() {
            let Some(name) = as_text(item) else {
                let fault = Fault::error(item.span.clone(), "a security group is named by a text");
                faults.push(fault.help("write its name"));
                continue;
            };
            let at = NodeFactory::of(item);
            groups.push(at.map([("name", at.literal(&name))]));
        }
        self.set_entry("server", "security_groups", NodeFactory::of(node).list(groups));
    }

    fn set_cidrs(&mut self, faults: &mut Vec<Fault>) {
        let (start, place) = self.cidr_start.take().unwrap_or((CIDR_START.to_owned(), self.place.clone()));
        let cidrs: Option<Vec<YamlNode>> =
            (0..self.subnets).map(|number| Some(place.text(nth_cidr(&start, number)?))).collect();
        match cidrs {
            Some(cidrs) => self.set("cidrs", place.list(cidrs)),
            None => {
                let message = format!("`{start}` does not begin {} ranges of IPv4 addresses", self.subnets);
                let fault = Fault::error(place.0, message);
                faults.push(fault.help("write an address and a length: 10.2.0.0/24"));
            }
        }
    }

    fn set_workbook(&mut self, node: &YamlNode, around: &ScenarioEnvironment<'_>, faults: &mut Vec<Fault>) {
        let Some(mut definition) = read(node, around, faults) else { return };
        if let YamlValue::Map(entries) = &mut definition.kind {
            entries.retain(|(key, _)| key.name != "name");
        }
        if self.has("workflow") {
            let first = definition.get("workflows").and_then(|workflows| workflows.entries().first());
            match first {
                Some((key, _)) => self.set("workflow", NodeFactory::of(node).literal(&key.name)),
                None => {
                    let fault = Fault::error(node.span.clone(), "the workbook has no workflow");
                    faults.push(fault.help("add one below `workflows`"));
                }
            }
        }
        self.set("definition", meant_literally(&definition));
    }
}

/// The map in the YAML or JSON file that an argument names, at the argument's place.
fn read(node: &YamlNode, around: &ScenarioEnvironment<'_>, faults: &mut Vec<Fault>) -> Option<YamlNode> {
    let path = as_text(node).unwrap_or_default();
    let wrong = |message: String| {
        Fault::error(node.span.clone(), message)
            .help("name a file relative to the current directory or to the task file")
    };
    let text = match (around.files.read)(&path) {
        Ok(text) => text,
        Err(why) => {
            faults.push(wrong(why));
            return None;
        }
    };
    match yaml::parse(&SourceText::new(path.as_str(), text)) {
        Ok(root) if matches!(root.kind, YamlValue::Map(_)) => {
            Some(steps::moved(&root, &NodeFactory::of(node)))
        }
        Ok(_) => {
            faults.push(wrong(format!("{path} is not a map")));
            None
        }
        Err(found) => {
            let why = found.into_iter().next().map(|fault| fault.message).unwrap_or_default();
            faults.push(wrong(format!("{path} cannot be read: {why}")));
            None
        }
    }
}

/// The range of addresses that is this many ranges after another.
fn nth_cidr(start: &str, number: u32) -> Option<String> {
    let (address, bits) = start.split_once('/')?;
    let parts: Vec<u8> = address.split('.').map(|part| part.parse().ok()).collect::<Option<_>>()?;
    let (octets, bits): ([u8; 4], u32) = (parts.try_into().ok()?, bits.parse().ok()?);
    if !(1..=30).contains(&bits) {
        return None;
    }
    let size = 1_u64 << (32 - bits);
    let first = u64::from(u32::from_be_bytes(octets)) / size * size + u64::from(number) * size;
    let [a, b, c, d] = u32::try_from(first).ok()?.to_be_bytes();
    Some(format!("{a}.{b}.{c}.{d}/{bits}"))
}

#[cfg(test)]
mod tests {
    use super::nth_cidr;

    #[test]
    fn subnets_follow_one_another() {
        for (start, number, expected) in [
            ("10.2.0.0/24", 0, Some("10.2.0.0/24")),
            ("10.2.0.0/24", 1, Some("10.2.1.0/24")),
            ("1.1.0.7/30", 3, Some("1.1.0.16/30")),
            ("255.255.255.0/24", 0, Some("255.255.255.0/24")),
            ("255.255.255.0/24", 1, None),
            ("10.2.0.0", 0, None),
            ("10.2.0.0/33", 0, None),
            ("2001:db8::/64", 0, None),
        ] {
            assert_eq!(nth_cidr(start, number).as_deref(), expected, "{start} {number}");
        }
    }
}
