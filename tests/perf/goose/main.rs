//! Users who get a page again and again, as goose makes them; how many and how long, its own options say. Prints how many
//! requests succeeded.

use goose::prelude::*;

async fn page(user: &mut GooseUser) -> TransactionResult {
    user.get("/").await?;
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), GooseError> {
    let scenario = scenario!("pages").register_transaction(transaction!(page));
    let metrics = GooseAttack::initialize()?.register_scenario(scenario).execute().await?;
    let succeeded: usize = metrics.requests.values().map(|one| one.success_count).sum();
    println!("{succeeded} succeeded");
    Ok(())
}
